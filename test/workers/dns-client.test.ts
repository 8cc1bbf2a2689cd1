/** The DNS client over real sockets: look-ups, zones, whose answer counts, which server is asked when and how often. */

import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import dnsPacket from 'dns-packet'
import fc from 'fast-check'
import { startDeadline } from '../../workers/deadline.ts'
import { createDnsClient, type DnsClientOptions } from '../../workers/dns/dns-client.ts'
import type { DnsType } from '../../workers/dns/dns-message.ts'
import type { DnsSettings } from '../../workers/job.ts'
import { WAIT_MS } from '../support/patience.ts'
import { undisturbed } from '../support/until.ts'
import {
  type Asked,
  a,
  aaaa,
  cname,
  comparingOctets,
  encodeReply,
  NXDOMAIN,
  ns,
  type Script,
  type ScriptedDns,
  SERVFAIL,
  serve,
  soa,
  startDns,
  txt,
  viaTcp,
  zoneScript,
} from './scripted-dns.ts'
import { FOR_EVER_MS } from './verdicts.ts'

/** More time than a stalled machine takes; a test that waits for its end sets its own. */
function clientOf(resolvers: readonly string[], settings: Partial<DnsSettings> = {}, options?: DnsClientOptions) {
  const dns = createDnsClient({ resolvers, zones: [], timeoutMs: WAIT_MS, retries: 2, ...settings }, options)
  const timeoutMs = settings.timeoutMs ?? WAIT_MS
  return {
    addresses: (name: string) => dns.resolveAddresses(name, startDeadline(timeoutMs)),
    query: <T extends DnsType>(name: string, type: T) => dns.query(name, type, startDeadline(timeoutMs)),
  }
}
const addressesAt = ({ resolver }: ScriptedDns, name = 'x.example', settings?: Partial<DnsSettings>) =>
  clientOf([resolver], settings).addresses(name)
/** What a server that answers like this has for the name. */
const addressesOn = async (t: TestContext, script: Script, name?: string, settings?: Partial<DnsSettings>) =>
  addressesAt(await serve(t, script), name, settings)
/** The addresses found, IPv6 first. */
const found = (addresses: Awaited<ReturnType<typeof addressesAt>>) =>
  addresses.kind === 'answer' && [...addresses.ipv6, ...addresses.ipv4]

/** The records for questions of type A; none for others. */
const forA =
  (...addresses: string[]): Script =>
  ({ name, type }) => ({ answers: type === 'A' ? addresses.map((address) => a(name, address)) : [] })
const ONE = '192.0.2.1'

const flipId = (bytes: Buffer) => {
  const changed = Buffer.from(bytes)
  changed[0]! ^= 0xff
  return changed
}

describe('address look-up', () => {
  const zone = zoneScript({
    'both.example': [ONE, '2001:db8::1', '192.0.2.2'],
    'four.example': [ONE],
    'empty.example': [],
  })

  test('A and AAAA records come back by family', async (t) => {
    const server = await serve(t, zone)
    assert.deepEqual(await addressesAt(server, 'both.example'), {
      kind: 'answer',
      ipv4: [ONE, '192.0.2.2'],
      ipv6: ['2001:db8::1'],
      resolver: server.resolver,
      aliases: [],
    })
  })
  test('a resolver on IPv6 is asked', async (t) => {
    assert.deepEqual(found(await addressesAt(await serve(t, zone, '::1'), 'four.example')), [ONE])
  })
  test('the name is looked up in lower case and without the final dot', async (t) => {
    assert.deepEqual(found(await addressesOn(t, zone, 'FOUR.Example.')), [ONE])
  })
  test('a name without addresses is nodata', async (t) => {
    assert.deepEqual(await addressesOn(t, zone, 'empty.example'), { kind: 'nodata' })
  })
  test('a name that does not exist is nxdomain', async (t) => {
    assert.deepEqual(await addressesOn(t, zone, 'none.example'), { kind: 'nxdomain' })
  })
  test('SERVFAIL is a retryable failure that names the code', async (t) => {
    const server = await serve(t, () => ({ rcode: SERVFAIL }))
    assert.deepEqual(await addressesAt(server), {
      kind: 'failed',
      reason: 'the name server answered SERVFAIL',
      retryable: true,
      asked: [server.resolver],
    })
  })
  test('one family is enough when the other fails', async (t) => {
    const script: Script = (asked) => (asked.type === 'A' ? forA(ONE)(asked) : { rcode: SERVFAIL })
    assert.deepEqual(found(await addressesOn(t, script)), [ONE])
  })
  test('no A record and a failed AAAA look-up is a failure, not "no address"', async (t) => {
    const script: Script = ({ type }) => (type === 'A' ? {} : { rcode: SERVFAIL })
    assert.equal((await addressesOn(t, script)).kind, 'failed')
  })
  test('a server that never answers AAAA holds the look-up up by the grace only', async (t) => {
    const script: Script = (asked) => (asked.type === 'A' ? forA(ONE)(asked) : 'drop')
    const startedAt = performance.now()
    assert.deepEqual(found(await addressesOn(t, script, 'slow.example', { timeoutMs: FOR_EVER_MS })), [ONE])
    assert.ok(performance.now() - startedAt > 900)
  })
  test('no more than sixteen addresses of a family are kept', async (t) => {
    const many = Array.from({ length: 40 }, (_, index) => `192.0.2.${index}`)
    assert.equal((found(await addressesOn(t, forA(...many))) || []).length, 16)
  })
  const unusable = ['', 'a..example', `${'x'.repeat(64)}.example`, `${'abc.'.repeat(64)}example`, 'blank in.example']
  for (const name of [...unusable, 'ü.example'])
    test(`${JSON.stringify(name).slice(0, 30)} is not sent to anybody`, async (t) => {
      const server = await serve(t, zone)
      assert.deepEqual(await addressesAt(server, name), {
        kind: 'failed',
        reason: 'not a name that can be looked up',
        retryable: false,
        asked: [],
      })
      assert.equal(server.asked.length, 0)
    })
})

describe('zones', () => {
  test('a zone with fixed addresses answers without a query', async (t) => {
    const server = await serve(t, zoneScript({}))
    const client = clientOf([server.resolver], { zones: [{ zone: 'test', addresses: ['127.0.0.1', '::1'] }] })
    const addresses = await client.addresses('demo.test')
    assert.deepEqual(found(addresses), ['::1', '127.0.0.1'])
    assert.equal(addresses.kind === 'answer' && addresses.resolver, 'configured')
    assert.equal((await client.query('demo.test', 'CAA')).kind, 'nodata')
    assert.equal(server.asked.length, 0)
  })
  test('a zone with resolvers of its own is asked there', async (t) => {
    const [general, own] = [await serve(t, zoneScript({})), await serve(t, forA('10.0.0.1'))]
    const zones = [{ zone: 'corp.example', resolvers: [own.resolver] }]
    assert.deepEqual(found(await addressesAt(general, 'www.corp.example', { zones })), ['10.0.0.1'])
    assert.equal(general.asked.length, 0)
  })
  test('an alias into a zone is answered by that zone, whatever the first server says about it', async (t) => {
    const script: Script = ({ name, type }) => ({
      answers: [cname(name, 'demo.test'), ...(type === 'A' ? [a('demo.test', '192.0.2.66')] : [])],
    })
    const zones = [{ zone: 'test', addresses: ['127.0.0.1'] }]
    assert.deepEqual(found(await addressesOn(t, script, 'www.example', { zones })), ['127.0.0.1'])
  })
})

describe('aliases', () => {
  test('a chain inside one response is followed', async (t) => {
    const server = await serve(t, ({ name, type }) => ({
      answers: [
        cname(name, 'b.example'),
        cname('b.example', 'c.example'),
        ...(type === 'A' ? [a('c.example', ONE)] : []),
      ],
      authorities: [soa('example')],
    }))
    const addresses = await addressesAt(server, 'a.example')
    assert.deepEqual(found(addresses), [ONE])
    assert.deepEqual(addresses.kind === 'answer' && addresses.aliases, ['b.example', 'c.example'])
    assert.equal(server.asked.length, 2)
  })
  test('a chain that the server leaves half way is asked on', async (t) => {
    const script: Script = (asked) =>
      asked.name === 'a.example' ? { answers: [cname(asked.name, 'b.example')] } : forA(ONE)(asked)
    assert.deepEqual(found(await addressesOn(t, script, 'a.example')), [ONE])
  })
  test('an address for a name outside the chain does not count', async (t) => {
    const script: Script = ({ type }) => (type === 'A' ? { answers: [a('other.example', '192.0.2.66')] } : {})
    const addresses = await addressesOn(t, script, 'a.example')
    assert.equal(addresses.kind === 'failed' && addresses.reason, 'the name server answered for another name')
  })
  test('an alias to a missing name is nxdomain', async (t) => {
    const script: Script = ({ name }) => ({ rcode: NXDOMAIN, answers: [cname(name, 'gone.example')] })
    assert.deepEqual(await addressesOn(t, script, 'a.example'), { kind: 'nxdomain' })
  })
  const loops: Record<string, Script> = {
    'to itself': ({ name }) => ({ answers: [cname(name, name)] }),
    'of two in one response': () => ({ answers: [cname('a.example', 'b.example'), cname('b.example', 'a.example')] }),
    'of two over several responses': ({ name }) => ({
      answers: [cname(name, name === 'a.example' ? 'b.example' : 'a.example')],
    }),
    'without end': ({ name }) => ({ answers: [cname(name, `x${name}`)] }),
  }
  for (const [what, script] of Object.entries(loops)) {
    test(`a chain ${what} is a failure after few queries`, async (t) => {
      const server = await serve(t, script)
      const addresses = await addressesAt(server, 'a.example')
      assert.equal(addresses.kind === 'failed' && addresses.reason, 'aliases (CNAME) form a loop or too long a chain')
      assert.ok(server.asked.length <= 20, `${server.asked.length} queries`)
    })
  }
})

describe('answers that are not ours', () => {
  const good = (asked: Asked) => encodeReply(asked.query, { answers: asked.type === 'A' ? [a('x.example', ONE)] : [] })
  const forged = (query: dnsPacket.DecodedPacket) => encodeReply(query, { answers: [a('x.example', '192.0.2.66')] })
  const asking = (query: dnsPacket.DecodedPacket, over: Partial<dnsPacket.Question>) =>
    forged({ ...query, questions: [{ ...query.questions![0]!, ...over }] })

  const forgeries: Record<string, (asked: Asked) => Buffer> = {
    'another id': ({ query }) => flipId(forged(query)),
    'another question': ({ query }) => asking(query, { name: 'y.example' }),
    'another type in the question': ({ query }) => asking(query, { type: 'TXT' }),
    'another operation': ({ query }) => {
      const bytes = forged(query)
      bytes[2]! |= 0x28
      return bytes
    },
    'no response flag': ({ query }) => dnsPacket.encode({ ...query, type: 'query' }),
    'the question itself, sent back': ({ bytes }) => bytes,
    'three bytes': () => Buffer.from([1, 2, 3]),
    'nothing in it': () => Buffer.alloc(0),
  }
  for (const [what, forge] of Object.entries(forgeries)) {
    test(`a datagram with ${what} is ignored and the real answer counts`, async (t) => {
      assert.deepEqual(found(await addressesOn(t, (asked) => [forge(asked), good(asked)])), [ONE])
    })
  }
  for (const [from, address] of [
    ['port', '127.0.0.1'],
    ['address', '127.0.0.9'],
  ] as const)
    test(`datagrams from another ${from} are not taken, even with the right id and question`, async (t) => {
      const forger = createSocket('udp4').bind(0, address)
      await once(forger, 'listening')
      t.after(() => forger.close())
      const server = await serve(t, async (asked) => {
        for (let count = 0; count < 20; count++) forger.send(forged(asked.query), asked.from.port, asked.from.address)
        await sleep(30)
        return good(asked)
      })
      assert.deepEqual(found(await addressesAt(server)), [ONE])
      assert.ok(server.asked.every(({ transport }) => transport === 'udp'))
    })
  const overTcpAlone: Record<string, (asked: Asked) => Buffer | Buffer[]> = {
    'an answer in another case of letters (0x20)': ({ query }) =>
      asking(query, {
        name: query.questions![0]!.name.replace(/[a-z]/gi, (c) => (c < 'a' ? c.toLowerCase() : c.toUpperCase())),
      }),
    'thirty wrong datagrams': ({ query }) => Array.from({ length: 30 }, () => flipId(forged(query))),
  }
  for (const [what, forge] of Object.entries(overTcpAlone))
    test(`after ${what} the question goes over TCP`, async (t) => {
      const script: Script = (asked) => (asked.transport === 'tcp' ? good(asked) : forge(asked))
      assert.deepEqual(found(await addressesOn(t, script, 'x.example', { timeoutMs: FOR_EVER_MS })), [ONE])
    })
  test('a server that lowers the case is asked over TCP, where that is no matter', async (t) => {
    const name = 'a-name-of-letters.example'
    const script: Script = ({ query, type }) =>
      encodeReply(
        { ...query, questions: [{ ...query.questions![0]!, name }] },
        { answers: type === 'A' ? [a(name, ONE)] : [] },
      )
    assert.deepEqual(found(await addressesOn(t, script, name)), [ONE])
  })
})

describe('transport', () => {
  test('a truncated answer is fetched over TCP (RFC 7766 §5)', async (t) => {
    const script: Script = (asked) =>
      asked.transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE, answers: [a('x.example', '192.0.2.66')] }
        : forA(ONE)(asked)
    assert.deepEqual(found(await addressesOn(t, script)), [ONE])
  })
  test('an answer of many kilobytes arrives over TCP in pieces', async (t) => {
    const strings = Array.from({ length: 100 }, (_, index) => String(index).padStart(200, '0'))
    const server = await serve(
      t,
      viaTcp(({ name }) => ({ answers: strings.map((text) => txt(name, text)) })),
    )
    const result = await clientOf([server.resolver]).query('x.example', 'TXT')
    assert.equal(result.kind === 'answer' && result.records.length, 100)
  })
  test('a dead resolver is skipped at once', async (t) => {
    const gone = await startDns(zoneScript({}))
    await gone.close()
    const server = await serve(t, forA(ONE))
    const client = clientOf([gone.resolver, server.resolver], { timeoutMs: FOR_EVER_MS })
    assert.deepEqual(found(await client.addresses('x.example')), [ONE])
  })
  test('a silent resolver is left after a share of the time', async (t) => {
    const [silent, server] = [await serve(t, () => 'drop'), await serve(t, forA(ONE))]
    assert.deepEqual(found(await clientOf([silent.resolver, server.resolver]).addresses('x.example')), [ONE])
  })
  test('a lost datagram is sent again', async (t) => {
    const lost = new Set<string>()
    const script: Script = (asked) => {
      if (lost.has(asked.type)) return forA(ONE)(asked)
      lost.add(asked.type)
      return 'drop'
    }
    assert.deepEqual(found(await addressesOn(t, script, 'x.example', { timeoutMs: 7000 })), [ONE])
  })
  test('silence everywhere ends within the time given', async (t) => {
    const server = await serve(t, () => 'drop')
    const startedAt = performance.now()
    const addresses = await clientOf([server.resolver, server.resolver], { timeoutMs: 500 }).addresses('x.example')
    assert.deepEqual(addresses, {
      kind: 'failed',
      reason: 'no answer in time',
      retryable: true,
      asked: [server.resolver],
    })
    assert.ok(performance.now() - startedAt >= 450)
  })
  test('TCP that sends nothing ends within the time given', async (t) => {
    assert.equal(
      (
        await addressesOn(
          t,
          viaTcp(() => 'drop'),
          'x.example',
          { timeoutMs: 500 },
        )
      ).kind,
      'failed',
    )
  })
  test('after SERVFAIL the next resolver is asked', async (t) => {
    const [bad, server] = [await serve(t, () => ({ rcode: SERVFAIL })), await serve(t, forA(ONE))]
    assert.deepEqual(found(await clientOf([bad.resolver, server.resolver]).addresses('x.example')), [ONE])
  })
  const withoutEdns: Record<string, (asked: Asked) => ReturnType<Script>> = {
    'a server that does not know EDNS': () => ({ rcode: 1 }),
    'one that answers EDNS by a bare header': ({ bytes }) =>
      Buffer.concat([bytes.subarray(0, 2), Buffer.of(0x81, 0x81), Buffer.alloc(8)]),
  }
  for (const [what, answer] of Object.entries(withoutEdns))
    test(`${what} is asked without it (RFC 6891 §7)`, async (t) => {
      const script: Script = (asked) => (asked.query.additionals!.length > 0 ? answer(asked) : forA(ONE)(asked))
      assert.deepEqual(found(await addressesOn(t, script)), [ONE])
    })
})

describe('how long and how often', () => {
  const silent: Script = () => 'drop'
  const slow =
    (ms: number): Script =>
    ({ name }) =>
      sleep(ms).then(() => ({ answers: [txt(name, 'x')] }))
  const txtOf = (servers: readonly ScriptedDns[], settings: Partial<DnsSettings> = {}) =>
    clientOf(
      servers.map(({ resolver }) => resolver),
      settings,
    ).query('x.example', 'TXT')

  test('every server gets its turn in every round, and the time is used up', async (t) => {
    await undisturbed(async () => {
      const [one, two] = [await serve(t, silent), await serve(t, silent)]
      const startedAt = performance.now()
      const result = await txtOf([one, two], { timeoutMs: 4200, retries: 2 })
      assert.deepEqual(result.kind === 'failed' && result.asked, [one.resolver, two.resolver])
      assert.deepEqual([one.asked.length, two.asked.length], [3, 3])
      assert.ok(performance.now() - startedAt >= 4150)
    })
  })
  test('without retries each server is asked once and waited for as long as there is time', async (t) => {
    const server = await serve(t, slow(600))
    assert.equal((await txtOf([server], { retries: 0 })).kind, 'answer')
    assert.equal(server.asked.length, 1)
  })
  test('time that a failed server leaves over goes to the others', async (t) => {
    const servers = [await serve(t, () => ({ rcode: SERVFAIL })), await serve(t, slow(2400))]
    // More than half of the time, less than all of it.
    await undisturbed(async () => {
      assert.equal((await txtOf(servers, { timeoutMs: 4400, retries: 0 })).kind, 'answer')
    })
  })
  test('of a silent server and one that fails, only the silent one is asked again', async (t) => {
    await undisturbed(async () => {
      const [bad, mute] = [await serve(t, () => ({ rcode: SERVFAIL })), await serve(t, silent)]
      const result = await txtOf([bad, mute], { timeoutMs: 2800, retries: 2 })
      assert.equal(result.kind === 'failed' && result.reason, 'the name server answered SERVFAIL')
      assert.deepEqual([bad.asked.length, mute.asked.length], [1, 3])
    })
  })
  test('a referral is no answer: the server does not know, and the next one is asked', async (t) => {
    const lame = await serve(t, () => ({ authorities: [ns('example', 'ns.example')] }))
    const result = await txtOf([lame])
    assert.equal(result.kind === 'failed' && result.reason, 'the name server does not serve the zone')
    assert.equal((await txtOf([lame, await serve(t, slow(0))])).kind, 'answer')
  })
  test('an empty answer with the SOA beside the NS records is one (RFC 2308 §2.2)', async (t) => {
    const server = await serve(t, () => ({ authorities: [soa('example'), ns('example', 'ns.example')] }))
    assert.equal((await txtOf([server])).kind, 'nodata')
  })
})

describe('time to live', () => {
  const text = (name: string, ttl: number): dnsPacket.Answer => ({ type: 'TXT', name, ttl, data: ['x'] })
  const alias = { type: 'CNAME' as const, name: 'x.example', data: 'y.example', ttl: 30 }
  const cases: [what: string, answers: dnsPacket.Answer[], ttls: number[]][] = [
    ['is that of each record', [text('x.example', 300), text('x.example', 20)], [300, 20]],
    ['is bounded by the aliases on the way', [alias, text('y.example', 300), text('y.example', 10)], [30, 10]],
    ['with the top bit set is zero (RFC 2181 §8)', [text('x.example', 2 ** 31)], [0]],
  ]
  for (const [what, answers, ttls] of cases)
    test(what, async (t) => {
      const server = await serve(t, () => ({ answers }))
      const result = await clientOf([server.resolver]).query('x.example', 'TXT')
      assert.deepEqual(result.kind === 'answer' && result.records.map(({ ttlSeconds }) => ttlSeconds), ttls)
    })
})

test('the AD bit is reported, and only when every answer on the way has it', async (t) => {
  const server = await serve(t, ({ name }) =>
    name === 'a.example'
      ? { answers: [cname(name, 'b.example')], flags: dnsPacket.AUTHENTIC_DATA }
      : { answers: [txt(name, 'x')], flags: name === 'b.example' ? 0 : dnsPacket.AUTHENTIC_DATA },
  )
  const client = clientOf([server.resolver], {}, { dnssec: true })
  const results = [await client.query('c.example', 'TXT'), await client.query('a.example', 'TXT')]
  assert.deepEqual(
    results.map((result) => result.kind === 'answer' && result.authenticated),
    [true, false],
  )
})

test('nothing a hostile name server sends makes a look-up throw, hang or invent an address', async (t) => {
  let next: Script = () => 'drop'
  const server = await serve(t, (asked) => next(asked))
  const damage = fc.array(fc.tuple(fc.nat({ max: 400 }), fc.nat({ max: 255 })), { maxLength: 12 })
  const tails = fc.uint8Array({ maxLength: 64 })
  await fc.assert(
    fc.asyncProperty(damage, fc.boolean(), fc.nat({ max: 300 }), tails, async (changes, header, cut, tail) => {
      next = ({ query }) => {
        const reply = encodeReply(query, {
          answers: [cname('x.example', 'y.example'), a('y.example', ONE), aaaa('y.example', '2001:db8::1')],
          authorities: [soa('example')],
        })
        for (const [at, byte] of changes) if (at < reply.length && (!header || at > 30)) reply[at] = byte
        return Buffer.concat([cut > 40 ? reply.subarray(0, cut) : reply, tail])
      }
      const addresses = await addressesAt(server, 'x.example', { timeoutMs: 120 })
      if (addresses.kind === 'answer') assert.ok(addresses.ipv4.length + addresses.ipv6.length > 0)
      if (addresses.kind === 'failed') assert.match(addresses.reason, /^[ -~]{1,80}$/)
    }),
    { numRuns: 150 },
  )
})

describe('a server that compares names octet by octet', () => {
  const known = comparingOctets((asked) =>
    asked.type === 'TXT' ? { answers: [txt(asked.name, 'here')] } : forA(ONE)(asked),
  )
  /** Long enough that random case leaves no name as it is. */
  const NAME = 'a-name-of-many-letters.example'
  const txtOf = ({ resolver }: ScriptedDns) => clientOf([resolver]).query(NAME, 'TXT')

  test('is asked once more in lower case, and what it has then counts over TCP', async (t) => {
    const server = await serve(t, known)
    assert.equal((await txtOf(server)).kind, 'answer')
    assert.deepEqual(
      server.asked.map(({ transport, query }) => [transport, query.questions![0]!.name === NAME]),
      [
        ['udp', false],
        ['udp', true],
        ['tcp', true],
      ],
    )
  })
  test('is asked so for addresses, where neither family has any', async (t) => {
    assert.deepEqual(found(await addressesOn(t, known, NAME)), [ONE])
  })
  test('is not asked so for a second family of addresses', async (t) => {
    const server = await serve(t, forA(ONE))
    await addressesAt(server, NAME)
    assert.equal(server.asked.length, 2)
  })
  test('is not believed over UDP, where a forger would have no letters to guess', async (t) => {
    const server = await serve(t, (asked) => (asked.transport === 'udp' ? known(asked) : {}))
    assert.equal((await txtOf(server)).kind, 'nodata')
  })
  test('fails the look-up when it has no TCP to confirm by', async (t) => {
    const result = await txtOf(await serve(t, known, '127.0.0.1', { tcp: false }))
    assert.deepEqual(result.kind === 'failed' && result.reason, 'the name server refuses connections')
  })
  test('and knows nothing either way is asked twice', async (t) => {
    for (const script of [() => ({ rcode: NXDOMAIN }), () => ({})]) {
      const server = await serve(t, script)
      assert.match((await txtOf(server)).kind, /^(nodata|nxdomain)$/)
      assert.equal(server.asked.length, 2)
    }
  })
  test('and lacks EDNS is asked without it in both cases', async (t) => {
    const server = await serve(t, (asked) => ((asked.query.additionals ?? []).length > 0 ? { rcode: 1 } : known(asked)))
    assert.equal((await txtOf(server)).kind, 'answer')
  })
})
