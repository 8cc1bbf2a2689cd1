import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import dnsPacket from 'dns-packet'
import fc from 'fast-check'
import { accountLabel } from '../../src/shared/protocol/account-labels.ts'
import { type Deadline, startDeadline } from '../../workers/deadline.ts'
import { lookUntilFound } from '../../workers/dns/method.ts'
import type { DnsAccount01Job, ValidationVerdict } from '../../workers/job.ts'
import validate from '../../workers/task.ts'
import { validateDns01, validateDnsAccount01 } from '../../workers/validate/dns-01.ts'
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
  soa,
  startDns,
  txt,
} from './scripted-dns.ts'
import {
  assertInvalid,
  assertValid,
  DIGEST,
  DOMAIN,
  KEY_AUTHORIZATION,
  looksOf,
  RECORD,
  rightAnswer,
  serve,
  settingsOf,
  timedVerdict,
  txtJob,
} from './scripted-txt.ts'

const AUTHENTIC = dnsPacket.AUTHENTIC_DATA
const reply = (asked: Asked, what: Reply) => encodeReply(asked.query, what)
const good = (asked: Asked) => reply(asked, { answers: [txt(asked.name, DIGEST)] })
/** What a forger wants believed; a test that fails on it says so. */
const forged = (asked: Asked) => reply(asked, { answers: [txt(asked.name, 'forged')] })

describe('the record (RFC 8555 §8.4)', () => {
  test('is a TXT record below _acme-challenge with the digest of the key authorization', async (t) => {
    const server = await serve(t, rightAnswer)
    assertValid(await validateDns01(txtJob([server.resolver])))
    assert.deepEqual(
      server.asked.map(({ name, type, transport }) => [name, type, transport]),
      [[RECORD, 'TXT', 'udp']],
    )
  })
  test('is found by the task that the threads run', async (t) => {
    const server = await serve(t, rightAnswer)
    assertValid(await validate(txtJob([server.resolver])))
  })
  const spellings: Record<string, (name: string) => dnsPacket.Answer[]> = {
    'cut into two strings': (name) => [txt(name, DIGEST.slice(0, 20), DIGEST.slice(20))],
    'cut into strings of one character': (name) => [txt(name, ...DIGEST)],
    'cut with empty strings between': (name) => [txt(name, '', DIGEST.slice(0, 1), '', DIGEST.slice(1), '')],
    'the last of four records': (name) =>
      ['x', 'v=spf1 -all', ''].map((text) => txt(name, text)).concat(txt(name, DIGEST)),
    'beside the one of another order': (name) => [txt(name, DIGEST.replace(/^./, '_')), txt(name, DIGEST)],
    'there twice': (name) => [txt(name, DIGEST), txt(name, DIGEST)],
    'owned by a name in capitals': (name) => [txt(name.toUpperCase(), DIGEST)],
    'beside a signature and records of other types': (name) => [
      { type: 'A', name, data: '192.0.2.1', ttl: 60 },
      txt(name, DIGEST),
    ],
    'valid for no time at all': (name) => [{ type: 'TXT', name, data: [DIGEST], ttl: 0 }],
  }
  for (const [what, answers] of Object.entries(spellings)) {
    test(`counts when it is ${what}`, async (t) => {
      const server = await serve(t, ({ name }) => ({ answers: answers(name) }))
      assertValid(await validateDns01(txtJob([server.resolver])))
    })
  }
  test('counts among 200 others, which do not fit a datagram', async (t) => {
    const others = Array.from({ length: 200 }, (_, index) => `${index}`.padStart(43, 'A'))
    const server = await serve(t, ({ name, transport }) =>
      transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE }
        : { answers: [...others.slice(0, 120), DIGEST, ...others.slice(120)].map((text) => txt(name, text)) },
    )
    const verdict = await validateDns01(txtJob([server.resolver]))
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['records'], 201)
  })

  const one = 'the TXT record is not the digest of the key authorization'
  const wrong: Record<string, [(name: string) => dnsPacket.Answer[], string]> = {
    'another digest': [(name) => [txt(name, DIGEST.replace(/^./, '_'))], one],
    'the digest in capitals': [(name) => [txt(name, DIGEST.toUpperCase())], one],
    'the digest with the case of one letter changed': [
      (name) => [
        txt(
          name,
          DIGEST.replace(/[a-z]/, (letter) => letter.toUpperCase()),
        ),
      ],
      one,
    ],
    'the key authorization itself': [(name) => [txt(name, KEY_AUTHORIZATION)], one],
    'the digest with padding': [(name) => [txt(name, `${DIGEST}=`)], one],
    'the digest in quotes': [(name) => [txt(name, `"${DIGEST}"`)], `${one}; it has quotes inside the value`],
    'the digest and a blank': [(name) => [txt(name, `${DIGEST} `)], `${one}; it has white space around it`],
    'the digest twice in one record': [(name) => [txt(name, DIGEST, DIGEST)], one],
    'the digest and a zero byte': [(name) => [txt(name, DIGEST, Buffer.from([0]))], one],
    'an empty string': [(name) => [txt(name, '')], one],
    'bytes that are no text': [(name) => [txt(name, Buffer.from([0xff, 0xfe, 0x00, 0x0a]))], one],
    'the digest split over two records': [
      (name) => [txt(name, DIGEST.slice(0, 20)), txt(name, DIGEST.slice(20))],
      'none of 2 TXT records is the digest of the key authorization',
    ],
  }
  for (const [what, [answers, detail]] of Object.entries(wrong)) {
    test(`${what} is incorrectResponse, and worth another try`, async (t) => {
      const server = await serve(t, ({ name }) => ({ answers: answers(name) }))
      assertInvalid(await validateDns01(txtJob([server.resolver])), 'incorrectResponse', detail)
    })
  }
  test('two hundred decoys are incorrectResponse in bounded time, and none is quoted', async (t) => {
    const server = await serve(t, ({ name, transport }) =>
      transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE }
        : { answers: Array.from({ length: 200 }, (_, index) => txt(name, `${index}`.padStart(200, 'A'))) },
    )
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver]))
    assertInvalid(verdict, 'incorrectResponse', 'none of 200 TXT records is the digest of the key authorization')
    assert.ok(JSON.stringify(verdict.evidence).length < 1000)
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('a record of another name does not count', async (t) => {
    const server = await serve(t, () => ({ answers: [txt(DOMAIN, DIGEST)] }))
    assertInvalid(
      await validateDns01(txtJob([server.resolver])),
      'dns',
      'look-up failed: the name server answered for another name',
    )
  })
  test('a record of another class does not count', async (t) => {
    const server = await serve(t, ({ name }) => ({
      answers: [{ ...txt(name, DIGEST), class: 'CH' } as dnsPacket.Answer],
    }))
    assertInvalid(await validateDns01(txtJob([server.resolver])), 'dns', 'the name has no TXT record')
  })
  test('a record in the authority or additional section does not count', async (t) => {
    const server = await serve(t, ({ name }) => ({
      authorities: [txt(name, DIGEST)],
      change: (message) => {
        message.additionals = [txt(name, DIGEST)]
      },
    }))
    assertInvalid(await validateDns01(txtJob([server.resolver])), 'dns', 'the name has no TXT record')
  })
})

describe('no answer to go by', () => {
  const rcode = (code: number, name: string): [Script, string] => [
    () => ({ rcode: code }),
    `the name server answered ${name}`,
  ]
  const failures: Record<string, [Script, string]> = {
    SERVFAIL: rcode(SERVFAIL, 'SERVFAIL'),
    REFUSED: rcode(5, 'REFUSED'),
    FORMERR: rcode(1, 'FORMERR'),
    NOTIMP: rcode(4, 'NOTIMP'),
    'a code without a name': rcode(11, 'RCODE11'),
    'SERVFAIL with the right record': [
      ({ name }) => ({ rcode: SERVFAIL, answers: [txt(name, DIGEST)] }),
      'the name server answered SERVFAIL',
    ],
    'a referral to other servers': [
      () => ({ authorities: [ns('example', 'ns.example')] }),
      'the name server does not serve the zone',
    ],
    'a record that reaches past the end': [
      (asked) => good(asked).subarray(0, -5),
      'the name server sent a malformed answer',
    ],
    'an alias to something that is no name': [
      ({ name }) => ({ answers: [cname(name, 'with blank.example')] }),
      'the name server sent a malformed answer',
    ],
    'a compression pointer to itself': [
      (asked) => {
        const bytes = good(asked)
        const owner = asked.name.length + 2 + 4 + 12
        bytes.writeUInt16BE(0xc000 + owner, owner)
        return bytes
      },
      'the name server sent a malformed answer',
    ],
    nothing: [() => 'drop', 'no answer in time'],
    'a truncated answer, and nothing over TCP': [
      ({ transport }) => (transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE } : 'drop'),
      'no answer in time',
    ],
    'a truncated answer, and a closed connection over TCP': [
      ({ transport }) => (transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE } : 'close'),
      'the name server closed the connection',
    ],
    'a truncated answer over TCP as well': [
      () => ({ flags: dnsPacket.TRUNCATED_RESPONSE }),
      'the name server sent a malformed answer',
    ],
    'an answer to another question over TCP': [
      (asked) =>
        asked.transport === 'udp'
          ? { flags: dnsPacket.TRUNCATED_RESPONSE }
          : reply(
              { ...asked, query: { ...asked.query, id: asked.query.id! ^ 1 } },
              { answers: [txt(asked.name, DIGEST)] },
            ),
      'the name server answered another question',
    ],
    'only answers with another id': [
      (asked) => [encodeReply({ ...asked.query, id: asked.query.id! ^ 1 }, { answers: [txt(asked.name, DIGEST)] })],
      'no answer in time',
    ],
  }
  for (const [what, [script, reason]] of Object.entries(failures)) {
    test(`${what} is a dns problem, in time`, async (t) => {
      const server = await serve(t, script)
      const [verdict, ms] = await timedVerdict(
        // Only silence is waited for.
        txtJob([], { dns: settingsOf([server.resolver], reason === 'no answer in time' ? { timeoutMs: 700 } : {}) }),
      )
      assertInvalid(verdict, 'dns', `look-up failed: ${reason}`)
      assert.ok(ms < 60_000, `${ms} ms`)
    })
  }
  test('a server that answers with an error is not asked again within the attempt', async (t) => {
    const server = await serve(t, () => ({ rcode: SERVFAIL }))
    await validateDns01(txtJob([server.resolver]))
    assert.equal(server.asked.length, 1)
  })
  test('a silent server is asked again as often as dns.retries says', async (t) => {
    const server = await serve(t, () => 'drop')
    await undisturbed(async () => {
      server.asked.length = 0
      await validateDns01(txtJob([], { dns: settingsOf([server.resolver], { timeoutMs: 3000, retries: 3 }) }))
      assert.equal(server.asked.length, 4)
    })
  })
  test('a truncated answer is a dns problem when TCP is refused', async (t) => {
    const server = await serve(t, () => ({ flags: dnsPacket.TRUNCATED_RESPONSE }), '127.0.0.1', { tcp: false })
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver]))
    assertInvalid(verdict, 'dns', 'look-up failed: the name server refuses connections')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('a closed port is a dns problem at once', async () => {
    const gone = await startDns(rightAnswer)
    await gone.close()
    const [verdict, ms] = await timedVerdict(txtJob([gone.resolver]))
    assertInvalid(verdict, 'dns', 'look-up failed: the name server refuses connections')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('NXDOMAIN is a dns problem that says so', async (t) => {
    const server = await serve(t, () => ({ rcode: NXDOMAIN, authorities: [soa('example')] }))
    assertInvalid(await validateDns01(txtJob([server.resolver])), 'dns', 'the name does not exist (NXDOMAIN)')
  })
  test('NODATA is a dns problem that says so', async (t) => {
    const server = await serve(t, () => ({ authorities: [soa('example')] }))
    assertInvalid(await validateDns01(txtJob([server.resolver])), 'dns', 'the name has no TXT record')
  })
  test('a name too long for the label in front of it is not asked for, and not tried again', async (t) => {
    const server = await serve(t, rightAnswer)
    const value = `${'abcdefghi.'.repeat(24)}example`
    const verdict = await validateDns01(txtJob([server.resolver], { identifier: { type: 'dns', value } }))
    assertInvalid(verdict, 'dns', 'look-up failed: not a name that can be looked up', {
      retryable: false,
      record: `_acme-challenge.${value}`,
    })
    assert.equal(server.asked.length, 0)
  })
  test('the attempt ends with its own clock, whatever the look-up may take', async (t) => {
    const server = await serve(t, () => 'drop')
    const dns = settingsOf([server.resolver], { timeoutMs: 600_000 })
    const [verdict, ms] = await timedVerdict(txtJob([], { timeoutMs: 400, propagationWaitMs: 600_000, dns }))
    assertInvalid(verdict, 'dns', 'look-up failed: no answer in time')
    assert.ok(ms < 60_000, `${ms} ms`)
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
  const overTcp =
    (take: (asked: Asked, socket: Socket) => void): Script =>
    (asked) =>
      asked.transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE } : (socket) => take(asked, socket)

  test('an answer that comes byte by byte over TCP is read', async (t) => {
    const server = await serve(
      t,
      overTcp((asked, socket) => drip(socket, good(asked), 1)),
    )
    assertValid(await validateDns01(txtJob([server.resolver])))
  })
  test('an answer that drips without end is a dns problem, in time', async (t) => {
    const server = await serve(
      t,
      overTcp((_, socket) => drip(socket, Buffer.alloc(65_535), 20)),
    )
    const [verdict, ms] = await timedVerdict(txtJob([], { dns: settingsOf([server.resolver], { timeoutMs: 600 }) }))
    assertInvalid(verdict, 'dns', 'look-up failed: no answer in time')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('a connection that is reset is a dns problem', async (t) => {
    const server = await serve(
      t,
      overTcp((_, socket) => socket.resetAndDestroy()),
    )
    assertInvalid(
      await validateDns01(txtJob([server.resolver])),
      'dns',
      'look-up failed: the name server closed the connection',
    )
  })
  test('several answers over one connection: the first counts', async (t) => {
    const server = await serve(t, (asked) =>
      asked.transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE } : [good(asked), forged(asked)],
    )
    assertValid(await validateDns01(txtJob([server.resolver])))
  })
  test('an empty message over TCP is a dns problem', async (t) => {
    const server = await serve(t, ({ transport }) =>
      transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE } : Buffer.alloc(0),
    )
    assertInvalid(
      await validateDns01(txtJob([server.resolver])),
      'dns',
      'look-up failed: the name server answered another question',
    )
  })
  test('a datagram three times as large as was offered is read all the same', async (t) => {
    const server = await serve(t, ({ name }) => ({
      answers: [...Array.from({ length: 15 }, () => txt(name, 'A'.repeat(230))), txt(name, DIGEST)],
    }))
    assertValid(await validateDns01(txtJob([server.resolver])))
  })
  test('an answer of 64 KiB over TCP is read', async (t) => {
    const server = await serve(t, ({ name, transport }) =>
      transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE }
        : { answers: [...Array.from({ length: 245 }, () => txt(name, 'A'.repeat(225))), txt(name, DIGEST)] },
    )
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver]))
    assertValid(verdict)
    assert.ok(ms < 60_000, `${ms} ms`)
  })
})

describe('whose answer it is', () => {
  const forgeries: Record<string, (asked: Asked) => Buffer> = {
    'another id': (asked) =>
      encodeReply({ ...asked.query, id: asked.query.id! ^ 1 }, { answers: [txt(RECORD, 'forged')] }),
    'another question': (asked) =>
      encodeReply(
        { ...asked.query, questions: [{ ...asked.query.questions![0]!, name: 'other.example' }] },
        {
          answers: [txt('other.example', 'forged')],
        },
      ),
    'another type in the question': (asked) =>
      encodeReply(
        { ...asked.query, questions: [{ ...asked.query.questions![0]!, type: 'A' }] },
        {
          answers: [txt(asked.name, 'forged')],
        },
      ),
    'another operation': (asked) => {
      const bytes = forged(asked)
      bytes[2]! |= 0x28
      return bytes
    },
    'the question itself, sent back': (asked) => asked.bytes,
    'two bytes': () => Buffer.from([1, 2]),
  }
  for (const [what, forge] of Object.entries(forgeries)) {
    test(`a datagram with ${what} is passed over`, async (t) => {
      const server = await serve(t, (asked) => [forge(asked), good(asked)])
      assertValid(await validateDns01(txtJob([server.resolver])))
    })
  }
  test('a datagram from another port is not taken, even with the right id and question', async (t) => {
    const forger = createSocket('udp4')
    forger.bind(0, '127.0.0.1')
    await once(forger, 'listening')
    t.after(() => forger.close())
    const server = await serve(t, async (asked) => {
      for (let count = 0; count < 20; count++) forger.send(forged(asked), asked.from.port, asked.from.address)
      await sleep(30)
      return good(asked)
    })
    assertValid(await validateDns01(txtJob([server.resolver])))
    assert.deepEqual(
      server.asked.map(({ transport }) => transport),
      ['udp'],
    )
  })
  test('a datagram from another address is not taken', async (t) => {
    const forger = createSocket('udp4')
    forger.bind(0, '127.0.0.9')
    await once(forger, 'listening')
    t.after(() => forger.close())
    const server = await serve(t, async (asked) => {
      forger.send(forged(asked), asked.from.port, asked.from.address)
      await sleep(30)
      return good(asked)
    })
    assertValid(await validateDns01(txtJob([server.resolver])))
  })
  test('a flood of guesses sends the question over TCP', async (t) => {
    const server = await serve(t, (asked) =>
      asked.transport === 'tcp'
        ? good(asked)
        : Array.from({ length: 12 }, (_, index) =>
            encodeReply({ ...asked.query, id: asked.query.id! ^ (index + 1) }, {}),
          ),
    )
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver]))
    assertValid(verdict)
    assert.deepEqual(
      server.asked.map(({ transport }) => transport),
      ['udp', 'tcp'],
    )
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('an answer whose question has another case (0x20) is asked for again over TCP', async (t) => {
    const server = await serve(t, (asked) => {
      if (asked.transport === 'tcp') return good(asked)
      const question = asked.query.questions![0]!
      const swapped = question.name.replace(/[a-z]/gi, (c) => (c < 'a' ? c.toLowerCase() : c.toUpperCase()))
      return encodeReply(
        { ...asked.query, questions: [{ ...question, name: swapped }] },
        {
          answers: [txt(asked.name, 'forged')],
        },
      )
    })
    assertValid(await validateDns01(txtJob([server.resolver])))
    assert.deepEqual(
      server.asked.map(({ transport }) => transport),
      ['udp', 'tcp'],
    )
  })
  test('each question has its own id, case and source port', async (t) => {
    const server = await serve(t, rightAnswer)
    for (let count = 0; count < 20; count++) await validateDns01(txtJob([server.resolver]))
    const distinct = (of: (asked: Asked) => string | number) => new Set(server.asked.map(of)).size
    assert.ok(distinct(({ query }) => query.id!) > 15)
    assert.ok(distinct(({ query }) => query.questions![0]!.name) > 15)
    assert.ok(distinct(({ from }) => from.port) > 15)
  })
})

describe('aliases', () => {
  const chain =
    (length: number): Script =>
    ({ name }) => {
      const step = name === RECORD ? 0 : Number(/^a(\d+)\./.exec(name)?.[1])
      return step === length ? { answers: [txt(name, DIGEST)] } : { answers: [cname(name, `a${step + 1}.example`)] }
    }
  test('the record may be elsewhere, and the evidence names the way', async (t) => {
    const server = await serve(t, ({ name }) => ({
      answers: [cname(name, 'demo.acme.example'), txt('demo.acme.example', DIGEST)],
    }))
    const verdict = await validateDns01(txtJob([server.resolver]))
    assertValid(verdict)
    assert.deepEqual(looksOf(verdict)[0]?.['aliases'], ['demo.acme.example'])
  })
  test('a chain of eight is followed', async (t) => {
    const server = await serve(t, chain(8))
    assertValid(await validateDns01(txtJob([server.resolver])))
  })
  const endless: Record<string, Script> = {
    'a chain of nine': chain(9),
    'a chain of nine in one answer': () => ({
      answers: [
        cname(RECORD, 'a1.example'),
        ...Array.from({ length: 9 }, (_, index) => cname(`a${index + 1}.example`, `a${index + 2}.example`)),
        txt('a10.example', DIGEST),
      ],
    }),
    'an alias of itself': ({ name }) => ({ answers: [cname(name, name)] }),
    'a loop of two': ({ name }) => ({ answers: [cname(name, name === RECORD ? 'b.example' : RECORD)] }),
    'a chain without end': ({ name }) => ({ answers: [cname(name, `x${name}`)] }),
  }
  for (const [what, script] of Object.entries(endless)) {
    test(`${what} is a dns problem after few questions`, async (t) => {
      const server = await serve(t, script)
      const [verdict, ms] = await timedVerdict(txtJob([server.resolver]))
      assertInvalid(verdict, 'dns', 'look-up failed: aliases (CNAME) form a loop or too long a chain')
      assert.ok(server.asked.length <= 10, `${server.asked.length} questions`)
      assert.ok(ms < 60_000, `${ms} ms`)
    })
  }
  test('an alias to a name that does not exist is NXDOMAIN, and the alias is not named', async (t) => {
    const server = await serve(t, ({ name }) => ({
      rcode: NXDOMAIN,
      answers: [cname(name, 'secret.internal.example')],
    }))
    assertInvalid(await validateDns01(txtJob([server.resolver])), 'dns', 'the name does not exist (NXDOMAIN)')
  })
  test('an alias into another zone is asked for at that zone’s servers', async (t) => {
    const inner = await serve(t, rightAnswer)
    const outer = await serve(t, ({ name }) => ({
      answers: [cname(name, 'demo.corp.example'), txt('demo.corp.example', 'what outer says does not count')],
    }))
    const dns = settingsOf([outer.resolver], { zones: [{ zone: 'corp.example', resolvers: [inner.resolver] }] })
    const verdict = await validateDns01(txtJob([], { dns }))
    assertValid(verdict)
    assert.deepEqual([looksOf(verdict)[0]?.['resolver'], inner.asked[0]?.name], [inner.resolver, 'demo.corp.example'])
  })
  test('the servers of an alias that fail make the look-up fail', async (t) => {
    const inner = await serve(t, () => ({ rcode: SERVFAIL }))
    const outer = await serve(t, ({ name }) => ({ answers: [cname(name, 'demo.corp.example')] }))
    const dns = settingsOf([outer.resolver], { zones: [{ zone: 'corp.example', resolvers: [inner.resolver] }] })
    assertInvalid(await validateDns01(txtJob([], { dns })), 'dns', 'look-up failed: the name server answered SERVFAIL')
  })
})

describe('which name servers', () => {
  test('the second one takes over from a silent first one, well before the time is up', async (t) => {
    const silent = await serve(t, () => 'drop')
    const server = await serve(t, rightAnswer)
    const dns = settingsOf([silent.resolver, server.resolver], { timeoutMs: 14_000, retries: 2 })
    const [verdict, ms] = await timedVerdict(txtJob([], { dns }))
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['resolver'], server.resolver)
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  const unusable: Record<string, Script> = {
    SERVFAIL: () => ({ rcode: SERVFAIL }),
    REFUSED: () => ({ rcode: 5 }),
    'a referral': () => ({ authorities: [ns('example', 'ns.example')] }),
    'a malformed answer': (asked) => good(asked).subarray(0, -3),
  }
  for (const [what, script] of Object.entries(unusable)) {
    test(`the second one takes over after ${what}`, async (t) => {
      const first = await serve(t, script)
      const server = await serve(t, rightAnswer)
      assertValid(await validateDns01(txtJob([first.resolver, server.resolver])))
    })
  }
  test('the first one is right when it says NXDOMAIN; the second is not asked', async (t) => {
    const first = await serve(t, () => ({ rcode: NXDOMAIN }))
    const second = await serve(t, rightAnswer)
    assertInvalid(
      await validateDns01(txtJob([first.resolver, second.resolver])),
      'dns',
      'the name does not exist (NXDOMAIN)',
    )
    assert.equal(second.asked.length, 0)
  })
  test('a slow one is waited for while there is time', async (t) => {
    const server = await serve(t, (asked) => sleep(500).then(() => good(asked)))
    const dns = settingsOf([server.resolver], { retries: 2 })
    assertValid(await validateDns01(txtJob([], { dns })))
  })
  test('those of a zone are asked for its names, and the longest zone counts', async (t) => {
    const general = await serve(t, () => ({ rcode: NXDOMAIN }))
    const wide = await serve(t, () => ({ rcode: NXDOMAIN }))
    const own = await serve(t, rightAnswer)
    const zones = [
      { zone: 'example', resolvers: [wide.resolver] },
      { zone: DOMAIN, resolvers: [own.resolver] },
    ]
    assertValid(await validateDns01(txtJob([], { dns: settingsOf([general.resolver], { zones }) })))
    assert.deepEqual([general.asked.length, wide.asked.length, own.asked.length], [0, 0, 1])
  })
  test('a zone with fixed addresses and no resolvers has no records', async (t) => {
    const general = await serve(t, rightAnswer)
    const zones = [{ zone: 'example', addresses: ['127.0.0.1'] }]
    assertInvalid(
      await validateDns01(txtJob([], { dns: settingsOf([general.resolver], { zones }) })),
      'dns',
      'the name has no TXT record',
    )
    assert.equal(general.asked.length, 0)
  })
  test('a zone with fixed addresses and resolvers has their records', async (t) => {
    const own = await serve(t, rightAnswer)
    const zones = [{ zone: 'example', addresses: ['127.0.0.1'], resolvers: [own.resolver] }]
    assertValid(await validateDns01(txtJob([], { dns: settingsOf([], { zones }) })))
  })
  test('one on IPv6 is asked', async (t) => {
    const server = await serve(t, rightAnswer, '::1')
    assertValid(await validateDns01(txtJob([server.resolver])))
  })
  test('their addresses are not subject to the address policy', async (t) => {
    const server = await serve(t, rightAnswer)
    assertValid(await validateDns01(txtJob([server.resolver], { blockedNetworks: ['127.0.0.0/8'] })))
  })
})

describe('a record that is still on its way', () => {
  test('is looked for again while the wait lasts', async (t) => {
    let questions = 0
    const server = await serve(t, (asked) => (++questions <= ONE_LOOK ? { rcode: NXDOMAIN } : good(asked)))
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver], { propagationWaitMs: 30_000 }))
    assertValid(verdict)
    assert.deepEqual(
      looksOf(verdict).map(({ result }) => result),
      ['nxdomain', 'answer'],
    )
    assert.ok(ms > 900 && ms < 60_000, `${ms} ms`)
  })
  test('is not waited for when it is there', async (t) => {
    const server = await serve(t, rightAnswer)
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver], { propagationWaitMs: 30_000 }))
    assertValid(verdict)
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  /** @param elapsed what the clock says after each look */
  async function looksBy(elapsed: number[]): Promise<number> {
    const deadline: Deadline = { ...startDeadline(60_000), elapsedMs: () => elapsed.shift()! }
    const missing: ValidationVerdict = { ok: false, problem: 'dns', detail: 'nothing', retryable: true, evidence: [] }
    const look = mock.fn(() => Promise.resolve(missing))
    await lookUntilFound(look, deadline, 1400)
    return look.mock.callCount()
  }
  test('is looked for until the wait is over', async (t) => {
    const server = await serve(t, () => ({ rcode: NXDOMAIN }))
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver], { propagationWaitMs: 1400 }))
    assertInvalid(verdict, 'dns', 'the name does not exist (NXDOMAIN)')
    assert.ok(looksOf(verdict).length >= 2)
    assert.ok(ms > 1350 && ms < 60_000, `${ms} ms`)
  })
  test('is looked for one last time when the wait is over', async () => {
    assert.equal(await looksBy([1, 1001, 1401]), 3)
  })
  test('is not looked for once more because a timer fired early', async () => {
    assert.equal(await looksBy([1399, 1399.6, 1400]), 2)
  })
  test('is never waited for longer than the attempt may take', async (t) => {
    const server = await serve(t, () => ({ rcode: NXDOMAIN }))
    const [verdict, ms] = await timedVerdict(txtJob([server.resolver], { propagationWaitMs: 600_000, timeoutMs: 2900 }))
    assertInvalid(verdict, 'dns', 'the name does not exist (NXDOMAIN)')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
})

describe('require_dnssec (RFC 4035 §3.2.3)', () => {
  const job = (resolver: string) => txtJob([resolver], { requireDnssec: true })

  test('an answer with the AD bit counts, and the question carries DO and AD', async (t) => {
    const server = await serve(t, ({ name }) => ({ flags: AUTHENTIC, answers: [txt(name, DIGEST)] }))
    const verdict = await validateDns01(job(server.resolver))
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['authenticated'], true)
    const [opt] = server.asked[0]!.query.additionals!
    assert.deepEqual([server.asked[0]!.query.flag_ad, opt?.type === 'OPT' && opt.flag_do], [true, true])
  })
  test('the right record without the AD bit is a dns problem for good', async (t) => {
    const server = await serve(t, rightAnswer)
    assertInvalid(await validateDns01(job(server.resolver)), 'dns', 'the answer is not authenticated by DNSSEC', {
      retryable: false,
    })
  })
  test('an alias without the AD bit spoils a target with it', async (t) => {
    const server = await serve(t, ({ name }) =>
      name === RECORD ? { answers: [cname(name, 'b.example')] } : { flags: AUTHENTIC, answers: [txt(name, DIGEST)] },
    )
    assertInvalid(await validateDns01(job(server.resolver)), 'dns', 'the answer is not authenticated by DNSSEC', {
      retryable: false,
    })
  })
  test('an authenticated answer over TCP counts', async (t) => {
    const server = await serve(t, ({ name, transport }) =>
      transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE | AUTHENTIC }
        : { flags: AUTHENTIC, answers: [txt(name, DIGEST)] },
    )
    assertValid(await validateDns01(job(server.resolver)))
  })
  test('a wrong record with the AD bit is incorrectResponse', async (t) => {
    const server = await serve(t, ({ name }) => ({ flags: AUTHENTIC, answers: [txt(name, 'x')] }))
    assertInvalid(
      await validateDns01(job(server.resolver)),
      'incorrectResponse',
      'the TXT record is not the digest of the key authorization',
    )
  })
  test('a server that does not know EDNS cannot authenticate', async (t) => {
    const server = await serve(t, ({ query, name }) =>
      query.additionals!.length > 0 ? { rcode: 1 } : { answers: [txt(name, DIGEST)] },
    )
    assertInvalid(await validateDns01(job(server.resolver)), 'dns', 'the answer is not authenticated by DNSSEC', {
      retryable: false,
    })
  })
  test('without it neither DO nor AD is asked for', async (t) => {
    const server = await serve(t, rightAnswer)
    await validateDns01(txtJob([server.resolver]))
    const [opt] = server.asked[0]!.query.additionals!
    assert.deepEqual([server.asked[0]!.query.flag_ad, opt?.type === 'OPT' && opt.flag_do], [false, false])
  })
})

describe('evidence', () => {
  test('names who was asked, the aliases, how many records came and how long it took', async (t) => {
    const server = await serve(t, ({ name }) => ({
      flags: AUTHENTIC,
      answers: [cname(name, 'b.example'), txt('b.example', 'x'), txt('b.example', DIGEST)],
    }))
    const { evidence } = await validateDns01(txtJob([server.resolver]))
    const [look, finished] = evidence
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
    const one = await serve(t, () => ({ rcode: SERVFAIL }))
    const two = await serve(t, () => ({ rcode: 5 }))
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

  test('the label is that of the draft’s example', () => assert.equal(accountLabel(accountUrl), 'ujmmovf2vn55tgye'))
  test('every account URL has a label of sixteen characters, and another one', () => {
    fc.assert(
      fc.property(fc.webUrl(), fc.webUrl(), (one, other) => {
        assert.match(accountLabel(one), /^[a-z2-7]{16}$/)
        if (one !== other) assert.notEqual(accountLabel(one), accountLabel(other))
      }),
    )
  })
  test('the record is looked for below the account’s label', async (t) => {
    const server = await serve(t, ({ name }) =>
      name === record ? { answers: [txt(name, DIGEST)] } : { rcode: NXDOMAIN },
    )
    assertValid(await validateDnsAccount01(job(server.resolver)))
    assertValid(await validate(job(server.resolver)))
  })
  test('the record of dns-01 does not count, and the error names the account URL (§3.4)', async (t) => {
    const server = await serve(t, ({ name }) =>
      name === RECORD ? { answers: [txt(name, DIGEST)] } : { rcode: NXDOMAIN },
    )
    assertInvalid(
      await validateDnsAccount01(job(server.resolver)),
      'dns',
      `the name does not exist (NXDOMAIN); its label is that of the account ${accountUrl}`,
      {
        record,
      },
    )
  })
  test('another account’s label does not count', async (t) => {
    const server = await serve(t, ({ name }) =>
      name === record ? { answers: [txt(name, DIGEST)] } : { rcode: NXDOMAIN },
    )
    const other = { ...job(server.resolver), accountLabel: accountLabel(`${accountUrl}2`) }
    const verdict = await validateDnsAccount01(other)
    assert.ok(!verdict.ok && verdict.problem === 'dns')
  })
})

describe('a hostile name server', () => {
  test('nothing it sends makes an attempt throw, hang, succeed or speak its words', async (t) => {
    let next: Script = () => 'drop'
    const server = await serve(t, (asked) => next(asked))
    const dns = settingsOf([server.resolver], { timeoutMs: 120, retries: 0 })
    const damage = fc.array(fc.tuple(fc.nat({ max: 200 }), fc.nat({ max: 255 })), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(damage, fc.boolean(), fc.uint8Array({ maxLength: 64 }), async (changes, keepHeader, tail) => {
        next = ({ query, name }) => {
          const bytes = encodeReply(query, { answers: [cname(name, 'words.example'), txt('words.example', 'words')] })
          for (const [at, byte] of changes) if (at < bytes.length && (!keepHeader || at > 46)) bytes[at] = byte
          return Buffer.concat([bytes, tail])
        }
        const [verdict, ms] = await timedVerdict(txtJob([], { dns }))
        assert.ok(!verdict.ok)
        assert.match(verdict.problem, /^(dns|incorrectResponse)$/)
        assert.ok(!verdict.detail.includes('words'))
        assert.ok(ms < 60_000, `${ms} ms`)
      }),
      { numRuns: 100 },
    )
  })
})
