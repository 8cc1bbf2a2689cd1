import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import dnsPacket from 'dns-packet'
import fc from 'fast-check'
import { startDeadline } from '../../workers/deadline.ts'
import { createDnsClient, type DnsClientOptions } from '../../workers/dns/dns-client.ts'
import type { DnsType } from '../../workers/dns/dns-message.ts'
import type { DnsSettings } from '../../workers/job.ts'
import { undisturbed } from '../support/until.ts'
import {
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
  soa,
  startDns,
  txt,
  zoneScript,
} from './scripted-dns.ts'

/** A server for one test. */
async function serve(t: TestContext, script: Script, host?: string): Promise<ScriptedDns> {
  const server = await startDns(script, host)
  t.after(() => server.close())
  return server
}

/** More time than a stalled machine takes; a test that waits for its end sets its own. */
function clientOf(resolvers: readonly string[], settings: Partial<DnsSettings> = {}, options?: DnsClientOptions) {
  const dns = createDnsClient({ resolvers, zones: [], timeoutMs: 20_000, retries: 2, ...settings }, options)
  const timeoutMs = settings.timeoutMs ?? 20_000
  return {
    addresses: (name: string) => dns.resolveAddresses(name, startDeadline(timeoutMs)),
    query: <T extends DnsType>(name: string, type: T) => dns.query(name, type, startDeadline(timeoutMs)),
  }
}

/** Runs `work` and gives its result with the milliseconds it took. */
async function timed<R>(work: () => Promise<R>): Promise<[R, number]> {
  const startedAt = performance.now()
  return [await work(), performance.now() - startedAt]
}

const flipId = (bytes: Buffer) => {
  const changed = Buffer.from(bytes)
  changed[0]! ^= 0xff
  return changed
}

describe('address look-up', () => {
  const zone = {
    'both.example': ['192.0.2.1', '2001:db8::1', '192.0.2.2'],
    'four.example': ['192.0.2.1'],
    'empty.example': [],
  }

  test('A and AAAA records come back by family', async (t) => {
    const server = await serve(t, zoneScript(zone))
    const found = await clientOf([server.resolver]).addresses('both.example')
    assert.deepEqual(found, {
      kind: 'answer',
      ipv4: ['192.0.2.1', '192.0.2.2'],
      ipv6: ['2001:db8::1'],
      resolver: server.resolver,
      aliases: [],
    })
  })
  test('a resolver on IPv6 is asked', async (t) => {
    const server = await serve(t, zoneScript(zone), '::1')
    assert.equal((await clientOf([server.resolver]).addresses('four.example')).kind, 'answer')
  })
  test('the name is looked up in lower case and without the final dot', async (t) => {
    const server = await serve(t, zoneScript(zone))
    assert.equal((await clientOf([server.resolver]).addresses('FOUR.Example.')).kind, 'answer')
  })
  test('a name without addresses is nodata', async (t) => {
    const server = await serve(t, zoneScript(zone))
    assert.deepEqual(await clientOf([server.resolver]).addresses('empty.example'), { kind: 'nodata' })
  })
  test('a name that does not exist is nxdomain', async (t) => {
    const server = await serve(t, zoneScript(zone))
    assert.deepEqual(await clientOf([server.resolver]).addresses('none.example'), { kind: 'nxdomain' })
  })
  test('SERVFAIL is a retryable failure that names the code', async (t) => {
    const server = await serve(t, () => ({ rcode: SERVFAIL }))
    assert.deepEqual(await clientOf([server.resolver]).addresses('four.example'), {
      kind: 'failed',
      reason: 'the name server answered SERVFAIL',
      retryable: true,
      asked: [server.resolver],
    })
  })
  test('one family is enough when the other fails', async (t) => {
    const server = await serve(t, ({ type }) =>
      type === 'A' ? { answers: [a('half.example', '192.0.2.1')] } : { rcode: SERVFAIL },
    )
    const found = await clientOf([server.resolver]).addresses('half.example')
    assert.deepEqual(found.kind === 'answer' && [found.ipv6, found.ipv4], [[], ['192.0.2.1']])
  })
  test('no A record and a failed AAAA look-up is a failure, not "no address"', async (t) => {
    const server = await serve(t, ({ type }) => (type === 'A' ? {} : { rcode: SERVFAIL }))
    assert.equal((await clientOf([server.resolver]).addresses('half.example')).kind, 'failed')
  })
  test('a server that never answers AAAA holds the look-up up by the grace only', async (t) => {
    const server = await serve(t, ({ type }) => (type === 'A' ? { answers: [a('slow.example', '192.0.2.1')] } : 'drop'))
    const client = clientOf([server.resolver], { timeoutMs: 600_000 })
    const [found, ms] = await timed(() => client.addresses('slow.example'))
    assert.equal(found.kind, 'answer')
    assert.ok(ms > 900 && ms < 60_000, `${ms} ms`)
  })
  test('no more than sixteen addresses of a family are kept', async (t) => {
    const many = Array.from({ length: 40 }, (_, index) => `192.0.2.${index}`)
    const server = await serve(t, zoneScript({ 'many.example': many }))
    const found = await clientOf([server.resolver]).addresses('many.example')
    assert.equal(found.kind === 'answer' && found.ipv4.length, 16)
  })
  for (const name of [
    '',
    'a..example',
    `${'x'.repeat(64)}.example`,
    `${'abc.'.repeat(64)}example`,
    'blank in.example',
    'ü.example',
  ]) {
    test(`${JSON.stringify(name).slice(0, 30)} is not sent to anybody`, async (t) => {
      const server = await serve(t, zoneScript(zone))
      const found = await clientOf([server.resolver]).addresses(name)
      assert.deepEqual(found, {
        kind: 'failed',
        reason: 'not a name that can be looked up',
        retryable: false,
        asked: [],
      })
      assert.equal(server.asked.length, 0)
    })
  }
})

describe('zones', () => {
  test('a zone with fixed addresses answers without a query', async (t) => {
    const server = await serve(t, zoneScript({}))
    const client = clientOf([server.resolver], { zones: [{ zone: 'test', addresses: ['127.0.0.1', '::1'] }] })
    const found = await client.addresses('demo.test')
    assert.deepEqual(found.kind === 'answer' && [found.ipv6, found.ipv4, found.resolver], [
      ['::1'],
      ['127.0.0.1'],
      'configured',
    ])
    assert.equal((await client.query('demo.test', 'CAA')).kind, 'nodata')
    assert.equal(server.asked.length, 0)
  })
  test('a zone with resolvers of its own is asked there', async (t) => {
    const general = await serve(t, zoneScript({}))
    const own = await serve(t, zoneScript({ 'www.corp.example': ['10.0.0.1'] }))
    const client = clientOf([general.resolver], { zones: [{ zone: 'corp.example', resolvers: [own.resolver] }] })
    assert.equal((await client.addresses('www.corp.example')).kind, 'answer')
    assert.equal(general.asked.length, 0)
  })
  test('an alias into a zone is answered by that zone, whatever the first server says about it', async (t) => {
    const server = await serve(t, ({ name, type }) =>
      type === 'A'
        ? { answers: [cname(name, 'demo.test'), a('demo.test', '192.0.2.66')] }
        : { answers: [cname(name, 'demo.test')] },
    )
    const client = clientOf([server.resolver], { zones: [{ zone: 'test', addresses: ['127.0.0.1'] }] })
    const found = await client.addresses('www.example')
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['127.0.0.1'])
  })
})

describe('aliases', () => {
  test('a chain inside one response is followed', async (t) => {
    const server = await serve(t, ({ name, type }) => ({
      answers: [
        cname(name, 'b.example'),
        cname('b.example', 'c.example'),
        ...(type === 'A' ? [a('c.example', '192.0.2.1')] : []),
      ],
      authorities: [soa('example')],
    }))
    const found = await clientOf([server.resolver]).addresses('a.example')
    assert.deepEqual(found.kind === 'answer' && [found.ipv4, found.aliases], [
      ['192.0.2.1'],
      ['b.example', 'c.example'],
    ])
    assert.equal(server.asked.length, 2)
  })
  test('a chain that the server leaves half way is asked on', async (t) => {
    const server = await serve(t, ({ name, type }) =>
      name === 'a.example'
        ? { answers: [cname(name, 'b.example')] }
        : { answers: type === 'A' ? [a(name, '192.0.2.1')] : [] },
    )
    const found = await clientOf([server.resolver]).addresses('a.example')
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
  })
  test('an address for a name outside the chain does not count', async (t) => {
    const server = await serve(t, ({ type }) => (type === 'A' ? { answers: [a('other.example', '192.0.2.66')] } : {}))
    const found = await clientOf([server.resolver]).addresses('a.example')
    assert.equal(found.kind === 'failed' && found.reason, 'the name server answered for another name')
  })
  test('an alias to a missing name is nxdomain', async (t) => {
    const server = await serve(t, ({ name }) => ({ rcode: NXDOMAIN, answers: [cname(name, 'gone.example')] }))
    assert.deepEqual(await clientOf([server.resolver]).addresses('a.example'), { kind: 'nxdomain' })
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
      const found = await clientOf([server.resolver]).addresses('a.example')
      assert.equal(found.kind === 'failed' && found.reason, 'aliases (CNAME) form a loop or too long a chain')
      assert.ok(server.asked.length <= 20, `${server.asked.length} queries`)
    })
  }
})

describe('answers that are not ours', () => {
  const good: Script = ({ query, type }) =>
    encodeReply(query, { answers: type === 'A' ? [a('x.example', '192.0.2.1')] : [] })
  const forged = (query: dnsPacket.DecodedPacket) => encodeReply(query, { answers: [a('x.example', '192.0.2.66')] })
  const withQuestion = (query: dnsPacket.DecodedPacket, name: string) =>
    forged({ ...query, questions: [{ ...query.questions![0]!, name }] })

  const forgeries: Record<string, (query: dnsPacket.DecodedPacket) => Buffer> = {
    'another id': (query) => flipId(forged(query)),
    'another question': (query) => withQuestion(query, 'y.example'),
    'no response flag': (query) => dnsPacket.encode({ ...query, type: 'query' }),
    'three bytes': () => Buffer.from([1, 2, 3]),
    'an empty datagram': () => Buffer.alloc(0),
  }
  for (const [what, forge] of Object.entries(forgeries)) {
    test(`a datagram with ${what} is ignored and the real answer counts`, async (t) => {
      const server = await serve(t, async (asked) => [forge(asked.query), (await good(asked)) as Buffer])
      const found = await clientOf([server.resolver]).addresses('x.example')
      assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
    })
  }
  test('an answer in another case of letters is asked for again over TCP', async (t) => {
    const server = await serve(t, (asked) => {
      if (asked.transport === 'tcp') return good(asked)
      const question = asked.query.questions![0]!
      const name = question.name.replace(/[a-z]/gi, (c) => (c < 'a' ? c.toLowerCase() : c.toUpperCase()))
      return withQuestion(asked.query, name)
    })
    const found = await clientOf([server.resolver]).addresses('x.example')
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
  })
  test('a server that lowers the case is asked over TCP, where that is no matter', async (t) => {
    const server = await serve(t, ({ query, type }) =>
      encodeReply(
        { ...query, questions: [{ ...query.questions![0]!, name: 'a-name-of-letters.example' }] },
        { answers: type === 'A' ? [a('a-name-of-letters.example', '192.0.2.1')] : [] },
      ),
    )
    const found = await clientOf([server.resolver]).addresses('a-name-of-letters.example')
    assert.equal(found.kind, 'answer')
  })
  test('after eight wrong datagrams the question goes over TCP', async (t) => {
    const server = await serve(t, (asked) =>
      asked.transport === 'tcp' ? good(asked) : Array.from({ length: 30 }, () => flipId(forged(asked.query))),
    )
    const [found, ms] = await timed(() => clientOf([server.resolver], { timeoutMs: 600_000 }).addresses('x.example'))
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
    assert.ok(ms < 60_000, `${ms} ms`)
  })
})

describe('transport', () => {
  test('a truncated answer is fetched over TCP (RFC 7766 §5)', async (t) => {
    const server = await serve(t, ({ transport, type }) =>
      transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE, answers: [a('x.example', '192.0.2.66')] }
        : { answers: type === 'A' ? [a('x.example', '192.0.2.1')] : [] },
    )
    const found = await clientOf([server.resolver]).addresses('x.example')
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
  })
  test('an answer of many kilobytes arrives over TCP in pieces', async (t) => {
    const strings = Array.from({ length: 100 }, (_, index) => String(index).padStart(200, '0'))
    const server = await serve(t, ({ transport, name }) =>
      transport === 'udp'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE }
        : { answers: strings.map((data) => ({ type: 'TXT' as const, name, data })) },
    )
    const found = await clientOf([server.resolver]).query('x.example', 'TXT')
    assert.equal(found.kind === 'answer' && found.records.length, 100)
  })
  test('a dead resolver is skipped at once', async (t) => {
    const gone = await startDns(zoneScript({}))
    await gone.close()
    const server = await serve(t, zoneScript({ 'x.example': ['192.0.2.1'] }))
    const [found, ms] = await timed(() =>
      clientOf([gone.resolver, server.resolver], { timeoutMs: 600_000 }).addresses('x.example'),
    )
    assert.equal(found.kind, 'answer')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('a silent resolver is left after a share of the time', async (t) => {
    const silent = await serve(t, () => 'drop')
    const server = await serve(t, zoneScript({ 'x.example': ['192.0.2.1'] }))
    const client = clientOf([silent.resolver, server.resolver])
    const [found, ms] = await timed(() => client.addresses('x.example'))
    assert.equal(found.kind, 'answer')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('a lost datagram is sent again', async (t) => {
    const lost = new Set<string>()
    const server = await serve(t, (asked) => {
      if (lost.has(asked.type)) return zoneScript({ 'x.example': ['192.0.2.1'] })(asked)
      lost.add(asked.type)
      return 'drop'
    })
    assert.equal((await clientOf([server.resolver], { timeoutMs: 7000 }).addresses('x.example')).kind, 'answer')
  })
  test('silence everywhere ends within the time given', async (t) => {
    const server = await serve(t, () => 'drop')
    const [found, ms] = await timed(() =>
      clientOf([server.resolver, server.resolver], { timeoutMs: 500 }).addresses('x.example'),
    )
    assert.deepEqual(found, { kind: 'failed', reason: 'no answer in time', retryable: true, asked: [server.resolver] })
    assert.ok(ms >= 450 && ms < 60_000, `${ms} ms`)
  })
  test('TCP that sends a length and then nothing ends within the time given', async (t) => {
    const server = await serve(t, ({ transport }) =>
      transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE } : 'drop',
    )
    const [found, ms] = await timed(() => clientOf([server.resolver], { timeoutMs: 500 }).addresses('x.example'))
    assert.equal(found.kind, 'failed')
    assert.ok(ms < 60_000, `${ms} ms`)
  })
  test('after SERVFAIL the next resolver is asked', async (t) => {
    const bad = await serve(t, () => ({ rcode: SERVFAIL }))
    const server = await serve(t, zoneScript({ 'x.example': ['192.0.2.1'] }))
    assert.equal((await clientOf([bad.resolver, server.resolver]).addresses('x.example')).kind, 'answer')
  })
  test('a server that does not know EDNS is asked without it (RFC 6891 §7)', async (t) => {
    const server = await serve(t, ({ query, name, type }) =>
      query.additionals!.length > 0 ? { rcode: 1 } : { answers: type === 'A' ? [a(name, '192.0.2.1')] : [] },
    )
    const found = await clientOf([server.resolver]).addresses('x.example')
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
  })
  test('one that answers EDNS by a bare header is asked without it, too', async (t) => {
    const server = await serve(t, ({ query, name, type, bytes }) => {
      if (query.additionals!.length === 0) return { answers: type === 'A' ? [a(name, '192.0.2.1')] : [] }
      return Buffer.concat([bytes.subarray(0, 2), Buffer.of(0x81, 0x81), Buffer.alloc(8)])
    })
    const found = await clientOf([server.resolver]).addresses('x.example')
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
  })
})

describe('how long and how often', () => {
  const silent: Script = () => 'drop'
  const txtOf = (resolvers: readonly string[], settings: Partial<DnsSettings>) =>
    timed(() => clientOf(resolvers, settings).query('x.example', 'TXT'))

  test('every server gets its turn in every round, and the time is used up and no more', async (t) => {
    await undisturbed(async () => {
      const [one, two] = [await serve(t, silent), await serve(t, silent)]
      const [found, ms] = await txtOf([one.resolver, two.resolver], { timeoutMs: 4200, retries: 2 })
      assert.deepEqual(found.kind === 'failed' && found.asked, [one.resolver, two.resolver])
      assert.deepEqual([one.asked.length, two.asked.length], [3, 3])
      assert.ok(ms >= 4150, `${ms} ms`)
    })
  })
  test('without retries each server is asked once and waited for as long as there is time', async (t) => {
    const server = await serve(t, ({ name }) =>
      new Promise((resolve) => setTimeout(resolve, 600)).then(() => ({ answers: [txt(name, 'x')] })),
    )
    const [found] = await txtOf([server.resolver], { retries: 0 })
    assert.equal(found.kind, 'answer')
    assert.equal(server.asked.length, 1)
  })
  test('time that a failed server leaves over goes to the others', async (t) => {
    const bad = await serve(t, () => ({ rcode: SERVFAIL }))
    const slow = await serve(t, ({ name }) =>
      new Promise((resolve) => setTimeout(resolve, 2400)).then(() => ({ answers: [txt(name, 'x')] })),
    )
    // More than half of the time, less than all of it.
    await undisturbed(async () => {
      const [found] = await txtOf([bad.resolver, slow.resolver], { timeoutMs: 4400, retries: 0 })
      assert.equal(found.kind, 'answer')
    })
  })
  test('of a silent server and one that fails, only the silent one is asked again', async (t) => {
    await undisturbed(async () => {
      const [bad, mute] = [await serve(t, () => ({ rcode: SERVFAIL })), await serve(t, silent)]
      const [found] = await txtOf([bad.resolver, mute.resolver], { timeoutMs: 2800, retries: 2 })
      assert.equal(found.kind === 'failed' && found.reason, 'the name server answered SERVFAIL')
      assert.deepEqual([bad.asked.length, mute.asked.length], [1, 3])
    })
  })
  test('a referral is no answer: the server does not know, and the next one is asked', async (t) => {
    const lame = await serve(t, () => ({ authorities: [ns('example', 'ns.example')] }))
    const [found] = await txtOf([lame.resolver], {})
    assert.equal(found.kind === 'failed' && found.reason, 'the name server does not serve the zone')
    const good = await serve(t, ({ name }) => ({ answers: [txt(name, 'x')] }))
    const [second] = await txtOf([lame.resolver, good.resolver], {})
    assert.equal(second.kind, 'answer')
  })
  test('an empty answer with the SOA beside the NS records is one (RFC 2308 §2.2)', async (t) => {
    const server = await serve(t, () => ({ authorities: [soa('example'), ns('example', 'ns.example')] }))
    const [found] = await txtOf([server.resolver], {})
    assert.equal(found.kind, 'nodata')
  })
})

describe('time to live', () => {
  const ttlsOf = async (t: TestContext, answers: dnsPacket.Answer[]) => {
    const server = await serve(t, () => ({ answers }))
    const found = await clientOf([server.resolver]).query('x.example', 'TXT')
    return found.kind === 'answer' && found.records.map(({ ttlSeconds }) => ttlSeconds)
  }
  const text = (name: string, ttl: number): dnsPacket.Answer => ({ type: 'TXT', name, ttl, data: ['x'] })

  test('is that of each record', async (t) => {
    assert.deepEqual(await ttlsOf(t, [text('x.example', 300), text('x.example', 20)]), [300, 20])
  })
  test('is bounded by the aliases on the way', async (t) => {
    const alias = { type: 'CNAME' as const, name: 'x.example', data: 'y.example', ttl: 30 }
    assert.deepEqual(await ttlsOf(t, [alias, text('y.example', 300), text('y.example', 10)]), [30, 10])
  })
  test('with the top bit set is zero (RFC 2181 §8)', async (t) => {
    assert.deepEqual(await ttlsOf(t, [text('x.example', 2 ** 31)]), [0])
  })
})

describe('other record types', () => {
  test('TXT strings are bytes', async (t) => {
    const server = await serve(t, ({ name }) => ({ answers: [{ type: 'TXT', name, data: ['a', 'b'] }] }))
    const found = await clientOf([server.resolver]).query('x.example', 'TXT')
    assert.deepEqual(found.kind === 'answer' && found.records[0]!.data.map(String), ['a', 'b'])
  })
  test('CAA records are read', async (t) => {
    const server = await serve(t, ({ name }) => ({
      answers: [{ type: 'CAA', name, data: { flags: 0, tag: 'issue', value: 'ca.example' } }],
    }))
    const found = await clientOf([server.resolver]).query('x.example', 'CAA')
    assert.deepEqual(found.kind === 'answer' && found.records[0]!.data, {
      critical: false,
      tag: 'issue',
      value: 'ca.example',
    })
  })
  test('the AD bit is reported, and only when every answer on the way has it', async (t) => {
    const server = await serve(t, ({ name }) =>
      name === 'a.example'
        ? { answers: [cname(name, 'b.example')], flags: dnsPacket.AUTHENTIC_DATA }
        : { answers: [{ type: 'TXT', name, data: ['x'] }], flags: name === 'b.example' ? 0 : dnsPacket.AUTHENTIC_DATA },
    )
    const client = clientOf([server.resolver], {}, { dnssec: true })
    const direct = await client.query('c.example', 'TXT')
    const through = await client.query('a.example', 'TXT')
    assert.deepEqual(
      [direct, through].map((found) => found.kind === 'answer' && found.authenticated),
      [true, false],
    )
  })
})

describe('a hostile name server', () => {
  test('nothing it sends makes a look-up throw, hang or invent an address', async (t) => {
    let next: Script = () => 'drop'
    const server = await serve(t, (asked) => next(asked))
    const damage = fc.array(fc.tuple(fc.nat({ max: 400 }), fc.nat({ max: 255 })), { maxLength: 12 })
    const keepHeader = fc.boolean()
    await fc.assert(
      fc.asyncProperty(
        damage,
        keepHeader,
        fc.nat({ max: 300 }),
        fc.uint8Array({ maxLength: 64 }),
        async (changes, header, cut, tail) => {
          next = ({ query }) => {
            const reply = encodeReply(query, {
              answers: [cname('x.example', 'y.example'), a('y.example', '192.0.2.1'), aaaa('y.example', '2001:db8::1')],
              authorities: [soa('example')],
            })
            for (const [at, byte] of changes) if (at < reply.length && (!header || at > 30)) reply[at] = byte
            return Buffer.concat([cut > 40 ? reply.subarray(0, cut) : reply, tail])
          }
          const [found, ms] = await timed(() => clientOf([server.resolver], { timeoutMs: 120 }).addresses('x.example'))
          assert.ok(ms < 60_000, `${ms} ms`)
          if (found.kind === 'answer') assert.ok(found.ipv4.length + found.ipv6.length > 0)
          if (found.kind === 'failed') assert.match(found.reason, /^[ -~]{1,80}$/)
        },
      ),
      { numRuns: 150 },
    )
  })
})

describe('a server that compares names octet by octet', () => {
  const known = comparingOctets(({ name, type }) =>
    type === 'TXT' ? { answers: [txt(name, 'here')] } : type === 'A' ? { answers: [a(name, '192.0.2.1')] } : {},
  )
  /** Long enough that random case leaves no name as it is. */
  const NAME = 'a-name-of-many-letters.example'

  test('is asked once more in lower case, and what it has then counts over TCP', async (t) => {
    const server = await serve(t, known)
    const found = await clientOf([server.resolver]).query(NAME, 'TXT')
    assert.equal(found.kind, 'answer')
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
    const server = await serve(t, known)
    const found = await clientOf([server.resolver]).addresses(NAME)
    assert.deepEqual(found.kind === 'answer' && found.ipv4, ['192.0.2.1'])
  })
  test('is not asked so for a second family of addresses', async (t) => {
    const server = await serve(t, ({ name, type }) => (type === 'A' ? { answers: [a(name, '192.0.2.1')] } : {}))
    await clientOf([server.resolver]).addresses(NAME)
    assert.equal(server.asked.length, 2)
  })
  test('is not believed over UDP, where a forger would have no letters to guess', async (t) => {
    const server = await serve(t, (asked) => (asked.transport === 'udp' ? known(asked) : {}))
    assert.equal((await clientOf([server.resolver]).query(NAME, 'TXT')).kind, 'nodata')
  })
  test('fails the look-up when it has no TCP to confirm by', async (t) => {
    const server = await startDns(known, '127.0.0.1', { tcp: false })
    t.after(() => server.close())
    const found = await clientOf([server.resolver]).query(NAME, 'TXT')
    assert.deepEqual(found.kind === 'failed' && found.reason, 'the name server refuses connections')
  })
  test('and knows nothing either way is asked twice', async (t) => {
    for (const script of [() => ({ rcode: NXDOMAIN }), () => ({})]) {
      const server = await serve(t, script)
      assert.match((await clientOf([server.resolver]).query(NAME, 'TXT')).kind, /^(nodata|nxdomain)$/)
      assert.equal(server.asked.length, 2)
    }
  })
  test('and lacks EDNS is asked without it in both cases', async (t) => {
    const server = await serve(t, (asked) => ((asked.query.additionals ?? []).length > 0 ? { rcode: 1 } : known(asked)))
    assert.equal((await clientOf([server.resolver]).query(NAME, 'TXT')).kind, 'answer')
  })
})
