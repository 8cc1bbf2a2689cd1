/**
 * dns-01 and dns-account-01 over real sockets. How name servers and their users spell the right record is in
 * `test/corpus/dns-answers.ts`; whose answer is taken, and which server is asked when, in `dns-client.test.ts`.
 */

import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import dnsPacket from 'dns-packet'
import fc from 'fast-check'
import { accountLabel } from '../../src/shared/protocol/challenge.ts'
import { type Deadline, startDeadline } from '../../workers/deadline.ts'
import type { DnsAccount01Job, ValidationVerdict } from '../../workers/job.ts'
import validate from '../../workers/task.ts'
import { lookUntilFound, validateDns01, validateDnsAccount01 } from '../../workers/validate/dns.ts'
import { each } from '../support/each.ts'
import { WAIT_MS } from '../support/patience.ts'
import { undisturbed } from '../support/until.ts'
import {
  type Asked,
  cname,
  encodeReply,
  NXDOMAIN,
  ns,
  ONE_LOOK,
  type Reply,
  type Script,
  SERVFAIL,
  serve,
  startDns,
  txt,
  viaTcp,
} from './scripted-dns.ts'
import {
  assertInvalid,
  assertInvalidOn,
  assertValidOn,
  DIGEST,
  DOMAIN,
  KEY_AUTHORIZATION,
  looksOf,
  RECORD,
  rightAnswer,
  settingsOf,
  txtJob,
  verdictAt,
  verdictOn,
} from './scripted-txt.ts'
import { assertEndsAfter, assertValid, FOR_EVER_MS } from './verdicts.ts'

const AUTHENTIC = dnsPacket.AUTHENTIC_DATA
const TRUNCATED = dnsPacket.TRUNCATED_RESPONSE
const reply = (asked: Asked, what: Reply) => encodeReply(asked.query, what)
const good = (asked: Asked) => reply(asked, { answers: [txt(asked.name, DIGEST)] })
const withAnotherId = (asked: Asked) => ({ ...asked, query: { ...asked.query, id: asked.query.id! ^ 1 } })

describe('the record (RFC 8555 §8.4)', () => {
  test('is a TXT record below _acme-challenge with the digest of the key authorization', async (t) => {
    const { server, verdict } = await verdictOn(t, rightAnswer)
    assertValid(verdict)
    assert.deepEqual(each(server.asked, 'name', 'type', 'transport'), [[RECORD, 'TXT', 'udp']])
  })
  test('is found by the task that the threads run', async (t) => {
    const server = await serve(t, rightAnswer)
    assertValid(await validate(txtJob([server.resolver])))
  })
  const spellings: Record<string, (name: string) => dnsPacket.Answer[]> = {
    'cut into two strings': (name) => [txt(name, DIGEST.slice(0, 20), DIGEST.slice(20))],
    'cut into strings of one character': (name) => [txt(name, ...DIGEST)],
    'cut with empty strings between': (name) => [txt(name, '', DIGEST.slice(0, 1), '', DIGEST.slice(1), '')],
    'beside the one of another order': (name) => [txt(name, DIGEST.replace(/^./, '_')), txt(name, DIGEST)],
    'there twice': (name) => [txt(name, DIGEST), txt(name, DIGEST)],
    'in a datagram three times as large as was offered': (name) => [
      ...Array.from({ length: 15 }, () => txt(name, 'A'.repeat(230))),
      txt(name, DIGEST),
    ],
  }
  for (const [what, answers] of Object.entries(spellings))
    test(`counts when it is ${what}`, (t) => assertValidOn(t, ({ name }) => ({ answers: answers(name) })))

  test('counts among 200 others, which do not fit a datagram', async (t) => {
    const others = Array.from({ length: 200 }, (_, index) => `${index}`.padStart(43, 'A'))
    const texts = [...others.slice(0, 120), DIGEST, ...others.slice(120)]
    const { verdict } = await verdictOn(
      t,
      viaTcp(({ name }) => ({ answers: texts.map((text) => txt(name, text)) })),
    )
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['records'], 201)
  })

  const one = 'the TXT record is not the digest of the key authorization'
  const wrong: Record<string, [(name: string) => dnsPacket.Answer[], detail?: string]> = {
    'another digest': [(name) => [txt(name, DIGEST.replace(/^./, '_'))]],
    'the digest in capitals': [(name) => [txt(name, DIGEST.toUpperCase())]],
    'the digest with the case of one letter changed': [
      (name) => [
        txt(
          name,
          DIGEST.replace(/[a-z]/, (letter) => letter.toUpperCase()),
        ),
      ],
    ],
    'the key authorization itself': [(name) => [txt(name, KEY_AUTHORIZATION)]],
    'the digest with padding': [(name) => [txt(name, `${DIGEST}=`)]],
    'the digest in quotes': [(name) => [txt(name, `"${DIGEST}"`)], `${one}; it has quotes inside the value`],
    'the digest and a blank': [(name) => [txt(name, `${DIGEST} `)], `${one}; it has white space around it`],
    'the digest twice in one record': [(name) => [txt(name, DIGEST, DIGEST)]],
    'the digest and a zero byte': [(name) => [txt(name, DIGEST, Buffer.from([0]))]],
    'bytes that are no text': [(name) => [txt(name, Buffer.from([0xff, 0xfe, 0x00, 0x0a]))]],
    'the digest split over two records': [
      (name) => [txt(name, DIGEST.slice(0, 20)), txt(name, DIGEST.slice(20))],
      'none of 2 TXT records is the digest of the key authorization',
    ],
  }
  for (const [what, [answers, detail = one]] of Object.entries(wrong))
    test(`${what} is incorrectResponse, and worth another try`, async (t) => {
      await assertInvalidOn(t, ({ name }) => ({ answers: answers(name) }), ['incorrectResponse', detail])
    })

  test('two hundred decoys are incorrectResponse, and none is quoted', async (t) => {
    const decoys = Array.from({ length: 200 }, (_, index) => `${index}`.padStart(200, 'A'))
    const { verdict } = await verdictOn(
      t,
      viaTcp(({ name }) => ({ answers: decoys.map((text) => txt(name, text)) })),
    )
    assertInvalid(verdict, 'incorrectResponse', 'none of 200 TXT records is the digest of the key authorization')
    assert.ok(JSON.stringify(verdict.evidence).length < 1000)
  })
  const elsewhere: [what: string, script: Script, detail: string][] = [
    [
      'of another name',
      () => ({ answers: [txt(DOMAIN, DIGEST)] }),
      'look-up failed: the name server answered for another name',
    ],
    [
      'of another class',
      ({ name }) => ({ answers: [{ ...txt(name, DIGEST), class: 'CH' } as dnsPacket.Answer] }),
      'the name has no TXT record',
    ],
    [
      'in the authority or additional section',
      ({ name }) => ({
        authorities: [txt(name, DIGEST)],
        change: (message) => {
          message.additionals = [txt(name, DIGEST)]
        },
      }),
      'the name has no TXT record',
    ],
  ]
  for (const [what, script, detail] of elsewhere)
    test(`a record ${what} does not count`, async (t) => {
      await assertInvalidOn(t, script, ['dns', detail])
    })
})

describe('no answer to go by', () => {
  const MALFORMED = 'the name server sent a malformed answer'
  const SILENCE = 'no answer in time'
  const failures: Record<string, [Script, string]> = {
    ...Object.fromEntries(
      Object.entries({ FORMERR: 1, SERVFAIL, NOTIMP: 4, REFUSED: 5, RCODE11: 11 }).map(([name, rcode]) => [
        name,
        [() => ({ rcode }), `the name server answered ${name}`],
      ]),
    ),
    'SERVFAIL with the right record': [
      ({ name }) => ({ rcode: SERVFAIL, answers: [txt(name, DIGEST)] }),
      'the name server answered SERVFAIL',
    ],
    'a referral to other servers': [
      () => ({ authorities: [ns('example', 'ns.example')] }),
      'the name server does not serve the zone',
    ],
    'a record that reaches past the end': [(asked) => good(asked).subarray(0, -5), MALFORMED],
    'an alias to something that is no name': [
      ({ name }) => ({ answers: [cname(name, 'with blank.example')] }),
      MALFORMED,
    ],
    nothing: [() => 'drop', SILENCE],
    'a truncated answer, and nothing over TCP': [viaTcp(() => 'drop'), SILENCE],
    'a truncated answer, and a closed connection over TCP': [
      viaTcp(() => 'close'),
      'the name server closed the connection',
    ],
    'a truncated answer, and a reset over TCP': [
      viaTcp(() => (socket) => socket.resetAndDestroy()),
      'the name server closed the connection',
    ],
    'a truncated answer over TCP as well': [() => ({ flags: TRUNCATED }), MALFORMED],
    'an answer to another question over TCP': [
      viaTcp((asked) => good(withAnotherId(asked))),
      'the name server answered another question',
    ],
    'an empty message over TCP': [viaTcp(() => Buffer.alloc(0)), 'the name server answered another question'],
    'an answer that drips over TCP without end': [
      viaTcp(() => (socket) => drip(socket, Buffer.alloc(65_535), 20)),
      SILENCE,
    ],
    'only answers with another id': [(asked) => [good(withAnotherId(asked))], SILENCE],
  }
  for (const [what, [script, reason]] of Object.entries(failures))
    test(`${what} is a dns problem`, async (t) => {
      // Only silence is waited for.
      const dns = reason === SILENCE ? { timeoutMs: 600 } : {}
      await assertInvalidOn(t, script, ['dns', `look-up failed: ${reason}`], { dns })
    })

  test('a server that answers with an error is not asked again within the attempt', async (t) => {
    const { server } = await verdictOn(t, () => ({ rcode: SERVFAIL }))
    assert.equal(server.asked.length, 1)
  })
  test('a silent server is asked again as often as dns.retries says', async (t) => {
    const server = await serve(t, () => 'drop')
    await undisturbed(async () => {
      server.asked.length = 0
      await verdictAt(server, { dns: { timeoutMs: 3000, retries: 3 } })
      assert.equal(server.asked.length, 4)
    })
  })
  test('a truncated answer is a dns problem when TCP is refused', async (t) => {
    const server = await serve(t, () => ({ flags: TRUNCATED }), '127.0.0.1', { tcp: false })
    assertInvalid(await verdictAt(server), 'dns', 'look-up failed: the name server refuses connections')
  })
  test('a closed port is a dns problem', async () => {
    const gone = await startDns(rightAnswer)
    await gone.close()
    const dns = { timeoutMs: FOR_EVER_MS }
    const verdict = await verdictAt(gone, { timeoutMs: FOR_EVER_MS, dns })
    assertInvalid(verdict, 'dns', 'look-up failed: the name server refuses connections')
  })
  test('NXDOMAIN is a dns problem that says so', async (t) => {
    await assertInvalidOn(t, () => ({ rcode: NXDOMAIN }), ['dns', 'the name does not exist (NXDOMAIN)'])
  })
  test('a name too long for the label in front of it is not asked for, and not tried again', async (t) => {
    const value = `${'abcdefghi.'.repeat(24)}example`
    const { server, verdict } = await verdictOn(t, rightAnswer, { identifier: { type: 'dns', value } })
    assertInvalid(verdict, 'dns', 'look-up failed: not a name that can be looked up', {
      retryable: false,
      record: `_acme-challenge.${value}`,
    })
    assert.equal(server.asked.length, 0)
  })
  test('the attempt ends with its own clock, whatever the look-up may take', async (t) => {
    const server = await serve(t, () => 'drop')
    await assertEndsAfter(
      400,
      () => verdictAt(server, { timeoutMs: 400, propagationWaitMs: FOR_EVER_MS, dns: { timeoutMs: FOR_EVER_MS } }),
      (verdict) => assertInvalid(verdict, 'dns', 'look-up failed: no answer in time'),
    )
  })
  /** The length and the message, a byte at a time. */
  function drip(socket: Socket, message: Buffer, everyMs: number): void {
    const bytes = Buffer.concat([Buffer.from([message.length >> 8, message.length & 0xff]), message])
    let at = 0
    const timer = setInterval(() => {
      if (socket.destroyed || at === bytes.length) clearInterval(timer)
      else socket.write(bytes.subarray(at, ++at))
    }, everyMs)
    socket.setNoDelay(true)
  }
  const large = (name: string) => [...Array.from({ length: 245 }, () => txt(name, 'A'.repeat(225))), txt(name, DIGEST)]
  const overTcp: Record<string, Script> = {
    'byte by byte': (asked) => (socket) => drip(socket, good(asked), 1),
    'in front of a forged one': (asked) => [good(asked), reply(asked, { answers: [txt(asked.name, 'forged')] })],
    'in 64 KiB': ({ name }) => ({ answers: large(name) }),
  }
  for (const [what, script] of Object.entries(overTcp))
    test(`an answer that comes ${what} over TCP is read`, (t) => assertValidOn(t, viaTcp(script)))
})

test('each question has its own id, case and source port', async (t) => {
  const server = await serve(t, rightAnswer)
  for (let count = 0; count < 20; count++) await verdictAt(server)
  const distinct = (of: (asked: Asked) => string | number) => new Set(server.asked.map(of)).size
  assert.ok(distinct(({ query }) => query.id!) > 15)
  assert.ok(distinct(({ query }) => query.questions![0]!.name) > 15)
  assert.ok(distinct(({ from }) => from.port) > 15)
})

describe('aliases', () => {
  const chain =
    (length: number): Script =>
    ({ name }) => {
      const step = name === RECORD ? 0 : Number(/^a(\d+)\./.exec(name)?.[1])
      return step === length ? { answers: [txt(name, DIGEST)] } : { answers: [cname(name, `a${step + 1}.example`)] }
    }
  test('the record may be elsewhere, and the evidence names the way', async (t) => {
    const { verdict } = await verdictOn(t, ({ name }) => ({
      answers: [cname(name, 'demo.acme.example'), txt('demo.acme.example', DIGEST)],
    }))
    assertValid(verdict)
    assert.deepEqual(looksOf(verdict)[0]?.['aliases'], ['demo.acme.example'])
  })
  test('a chain of eight is followed', (t) => assertValidOn(t, chain(8)))
  const endless: Record<string, Script> = {
    'a chain of nine': chain(9),
    'a chain of nine in one answer': () => ({
      answers: [
        cname(RECORD, 'a1.example'),
        ...Array.from({ length: 9 }, (_, index) => cname(`a${index + 1}.example`, `a${index + 2}.example`)),
        txt('a10.example', DIGEST),
      ],
    }),
    'a loop of two': ({ name }) => ({ answers: [cname(name, name === RECORD ? 'b.example' : RECORD)] }),
  }
  for (const [what, script] of Object.entries(endless))
    test(`${what} is a dns problem after few questions`, async (t) => {
      const expected = 'look-up failed: aliases (CNAME) form a loop or too long a chain'
      const { asked } = await assertInvalidOn(t, script, ['dns', expected])
      assert.ok(asked.length <= 10, `${asked.length} questions`)
    })
  test('an alias to a name that does not exist is NXDOMAIN, and the alias is not named', async (t) => {
    const script: Script = ({ name }) => ({ rcode: NXDOMAIN, answers: [cname(name, 'secret.internal.example')] })
    await assertInvalidOn(t, script, ['dns', 'the name does not exist (NXDOMAIN)'])
  })
  const intoZone: Script = ({ name }) => ({
    answers: [cname(name, 'demo.corp.example'), txt('demo.corp.example', 'what outer says does not count')],
  })
  test('an alias into another zone is asked for at that zone’s servers', async (t) => {
    const inner = await serve(t, rightAnswer)
    const zones = [{ zone: 'corp.example', resolvers: [inner.resolver] }]
    const { verdict } = await verdictOn(t, intoZone, { dns: { zones } })
    assertValid(verdict)
    assert.deepEqual([looksOf(verdict)[0]?.['resolver'], inner.asked[0]?.name], [inner.resolver, 'demo.corp.example'])
  })
  test('the servers of an alias that fail make the look-up fail', async (t) => {
    const inner = await serve(t, () => ({ rcode: SERVFAIL }))
    const zones = [{ zone: 'corp.example', resolvers: [inner.resolver] }]
    await assertInvalidOn(t, intoZone, ['dns', 'look-up failed: the name server answered SERVFAIL'], { dns: { zones } })
  })
})

describe('which name servers', () => {
  test('the second one takes over from a silent first one, well before the time is up', async (t) => {
    const silent = await serve(t, () => 'drop')
    const server = await serve(t, rightAnswer)
    const dns = settingsOf([silent.resolver, server.resolver], { timeoutMs: WAIT_MS / 4, retries: 2 })
    const verdict = await validateDns01(txtJob([], { dns }))
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['resolver'], server.resolver)
  })
  const unusable: Record<string, Script> = {
    REFUSED: () => ({ rcode: 5 }),
    'a malformed answer': (asked) => good(asked).subarray(0, -3),
  }
  for (const [what, script] of Object.entries(unusable))
    test(`the second one takes over after ${what}`, async (t) => {
      const [first, second] = [await serve(t, script), await serve(t, rightAnswer)]
      assertValid(await validateDns01(txtJob([first.resolver, second.resolver])))
    })
  test('the first one is right when it says NXDOMAIN; the second is not asked', async (t) => {
    const [first, second] = [await serve(t, () => ({ rcode: NXDOMAIN })), await serve(t, rightAnswer)]
    const verdict = await validateDns01(txtJob([first.resolver, second.resolver]))
    assertInvalid(verdict, 'dns', 'the name does not exist (NXDOMAIN)')
    assert.equal(second.asked.length, 0)
  })
  test('a slow one is waited for while there is time', (t) =>
    assertValidOn(t, (asked) => sleep(500).then(() => good(asked)), { dns: { retries: 2 } }))
  test('those of a zone are asked for its names, and the longest zone counts', async (t) => {
    const wide = await serve(t, () => ({ rcode: NXDOMAIN }))
    const own = await serve(t, rightAnswer)
    const zones = [
      { zone: 'example', resolvers: [wide.resolver] },
      { zone: DOMAIN, resolvers: [own.resolver] },
    ]
    const { server: general, verdict } = await verdictOn(t, () => ({ rcode: NXDOMAIN }), { dns: { zones } })
    assertValid(verdict)
    assert.deepEqual([general.asked.length, wide.asked.length, own.asked.length], [0, 0, 1])
  })
  test('a zone with fixed addresses has no records, or those of its resolvers', async (t) => {
    const zone = { zone: 'example', addresses: ['127.0.0.1'] }
    const expected: ['dns', string] = ['dns', 'the name has no TXT record']
    const general = await assertInvalidOn(t, rightAnswer, expected, { dns: { zones: [zone] } })
    assert.equal(general.asked.length, 0)
    const zones = [{ ...zone, resolvers: [general.resolver] }]
    assertValid(await validateDns01(txtJob([], { dns: settingsOf([], { zones }) })))
  })
  test('one on IPv6 is asked', async (t) => assertValid(await verdictAt(await serve(t, rightAnswer, '::1'))))
  test('their addresses are not subject to the address policy', (t) =>
    assertValidOn(t, rightAnswer, { blockedNetworks: ['127.0.0.0/8'] }))
})

describe('a record that is still on its way', () => {
  test('is looked for again while the wait lasts', async (t) => {
    let questions = 0
    const script: Script = (asked) => (++questions <= ONE_LOOK ? { rcode: NXDOMAIN } : good(asked))
    const startedAt = performance.now()
    const { verdict } = await verdictOn(t, script, { propagationWaitMs: 30_000 })
    assertValid(verdict)
    assert.deepEqual(each(looksOf(verdict), 'result'), ['nxdomain', 'answer'])
    assert.ok(performance.now() - startedAt > 900)
  })
  test('is not waited for when it is there', (t) =>
    assertValidOn(t, rightAnswer, { propagationWaitMs: FOR_EVER_MS, timeoutMs: FOR_EVER_MS }))
  /** @param elapsed what the clock says after each look */
  async function looksBy(elapsed: number[]): Promise<number> {
    const deadline: Deadline = { ...startDeadline(60_000), elapsedMs: () => elapsed.shift()! }
    const missing: ValidationVerdict = { ok: false, problem: 'dns', detail: 'nothing', retryable: true, evidence: [] }
    const look = mock.fn(() => Promise.resolve(missing))
    await lookUntilFound(look, deadline, 1400)
    return look.mock.callCount()
  }
  test('is looked for until the wait is over', async (t) => {
    const startedAt = performance.now()
    const { verdict } = await verdictOn(t, () => ({ rcode: NXDOMAIN }), { propagationWaitMs: 1400 })
    assertInvalid(verdict, 'dns', 'the name does not exist (NXDOMAIN)')
    assert.ok(looksOf(verdict).length >= 2)
    assert.ok(performance.now() - startedAt > 1350)
  })
  test('is looked for one last time when the wait is over', async () => {
    assert.equal(await looksBy([1, 1001, 1401]), 3)
  })
  test('is not looked for once more because a timer fired early', async () => {
    assert.equal(await looksBy([1399, 1399.6, 1400]), 2)
  })
  test('is never waited for longer than the attempt may take', async (t) => {
    const changes = { propagationWaitMs: FOR_EVER_MS, timeoutMs: 1500 }
    await assertInvalidOn(t, () => ({ rcode: NXDOMAIN }), ['dns', 'the name does not exist (NXDOMAIN)'], changes)
  })
})

describe('require_dnssec (RFC 4035 §3.2.3)', () => {
  const requireDnssec = true
  const flagsOf = ({ query }: Asked) => {
    const [opt] = query.additionals!
    return [query.flag_ad, opt?.type === 'OPT' && opt.flag_do]
  }

  test('an answer with the AD bit counts, and the question carries DO and AD', async (t) => {
    const script: Script = ({ name }) => ({ flags: AUTHENTIC, answers: [txt(name, DIGEST)] })
    const { server, verdict } = await verdictOn(t, script, { requireDnssec })
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['authenticated'], true)
    assert.deepEqual(flagsOf(server.asked[0]!), [true, true])
  })
  const unauthenticated: Record<string, Script> = {
    'the right record without the AD bit': rightAnswer,
    'a target with the AD bit of an alias without it': ({ name }) =>
      name === RECORD ? { answers: [cname(name, 'b.example')] } : { flags: AUTHENTIC, answers: [txt(name, DIGEST)] },
    'the record of a server that does not know EDNS': ({ query, name }) =>
      query.additionals!.length > 0 ? { rcode: 1 } : { answers: [txt(name, DIGEST)] },
  }
  for (const [what, script] of Object.entries(unauthenticated))
    test(`${what} is a dns problem for good`, async (t) => {
      const refusal = 'the answer is not authenticated by DNSSEC'
      await assertInvalidOn(t, script, ['dns', refusal, { retryable: false }], { requireDnssec })
    })
  test('an authenticated answer over TCP counts', (t) =>
    assertValidOn(
      t,
      viaTcp(({ name }) => ({ flags: AUTHENTIC, answers: [txt(name, DIGEST)] }), AUTHENTIC),
      { requireDnssec },
    ))
  test('a wrong record with the AD bit is incorrectResponse', async (t) => {
    const script: Script = ({ name }) => ({ flags: AUTHENTIC, answers: [txt(name, 'x')] })
    const wrong = 'the TXT record is not the digest of the key authorization'
    await assertInvalidOn(t, script, ['incorrectResponse', wrong], { requireDnssec })
  })
  test('without it neither DO nor AD is asked for', async (t) => {
    const { server } = await verdictOn(t, rightAnswer)
    assert.deepEqual(flagsOf(server.asked[0]!), [false, false])
  })
})

describe('evidence', () => {
  test('names who was asked, the aliases, how many records came and how long it took', async (t) => {
    const { server, verdict } = await verdictOn(t, ({ name }) => ({
      flags: AUTHENTIC,
      answers: [cname(name, 'b.example'), txt('b.example', 'x'), txt('b.example', DIGEST)],
    }))
    const [look, finished] = verdict.evidence
    assert.deepEqual(
      { ...look, durationMs: 0 },
      {
        step: 'looked-up',
        name: RECORD,
        via: 'resolver',
        result: 'answer',
        resolver: server.resolver,
        authenticated: true,
        aliases: ['b.example'],
        records: 2,
        durationMs: 0,
      },
    )
    assert.deepEqual([finished?.step, typeof finished?.['durationMs']], ['finished', 'number'])
  })
  test('of a failure names every server that was asked', async (t) => {
    const [one, two] = [await serve(t, () => ({ rcode: SERVFAIL })), await serve(t, () => ({ rcode: 5 }))]
    const { evidence } = await validateDns01(txtJob([one.resolver, two.resolver]))
    assert.deepEqual(
      [evidence[0]?.['result'], evidence[0]?.['reason'], evidence[0]?.['resolver']],
      ['failed', 'the name server answered REFUSED', `${one.resolver}, ${two.resolver}`],
    )
  })
})

describe('dns-account-01 (draft-ietf-acme-dns-account-label-03)', () => {
  const accountUrl = 'https://example.com/acme/acct/ExampleAccount'
  const record = `_ujmmovf2vn55tgye.${RECORD}`
  const job = (resolver: string): DnsAccount01Job => ({
    ...txtJob([resolver]),
    type: 'dns-account-01',
    accountLabel: accountLabel(accountUrl),
    accountUrl,
  })
  const onlyAt =
    (wanted: string): Script =>
    ({ name }) =>
      name === wanted ? { answers: [txt(name, DIGEST)] } : { rcode: NXDOMAIN }

  test('the label is that of the draft’s example', () => assert.equal(accountLabel(accountUrl), 'ujmmovf2vn55tgye'))
  test('every account URL has a label of sixteen characters, and another one', () => {
    fc.assert(
      fc.property(fc.webUrl(), fc.webUrl(), (one, other) => {
        assert.match(accountLabel(one), /^[a-z2-7]{16}$/)
        if (one !== other) assert.notEqual(accountLabel(one), accountLabel(other))
      }),
    )
  })
  test('the record is looked for below the account’s label, and no other’s', async (t) => {
    const { resolver } = await serve(t, onlyAt(record))
    assertValid(await validateDnsAccount01(job(resolver)))
    assertValid(await validate(job(resolver)))
    const other = { ...job(resolver), accountLabel: accountLabel(`${accountUrl}2`) }
    const verdict = await validateDnsAccount01(other)
    assert.ok(!verdict.ok && verdict.problem === 'dns')
  })
  test('the record of dns-01 does not count, and the error names the account URL (§3.4)', async (t) => {
    const { resolver } = await serve(t, onlyAt(RECORD))
    const refusal = `the name does not exist (NXDOMAIN); its label is that of the account ${accountUrl}`
    assertInvalid(await validateDnsAccount01(job(resolver)), 'dns', refusal, { record })
  })
})

test('nothing a hostile name server sends makes an attempt throw, hang, succeed or speak its words', async (t) => {
  let next: Script = () => 'drop'
  const server = await serve(t, (asked) => next(asked))
  const damage = fc.array(fc.tuple(fc.nat({ max: 200 }), fc.nat({ max: 255 })), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(damage, fc.boolean(), fc.uint8Array({ maxLength: 64 }), async (changes, keepHeader, tail) => {
      next = ({ query, name }) => {
        const bytes = encodeReply(query, { answers: [cname(name, 'words.example'), txt('words.example', 'words')] })
        for (const [at, byte] of changes) if (at < bytes.length && (!keepHeader || at > 46)) bytes[at] = byte
        return Buffer.concat([bytes, tail])
      }
      const verdict = await verdictAt(server, { timeoutMs: FOR_EVER_MS, dns: { timeoutMs: 120, retries: 0 } })
      assert.ok(!verdict.ok)
      assert.match(verdict.problem, /^(dns|incorrectResponse)$/)
      assert.ok(!verdict.detail.includes('words'))
    }),
    { numRuns: 100 },
  )
})
