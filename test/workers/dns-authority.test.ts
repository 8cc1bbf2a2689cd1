import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import dnsPacket from 'dns-packet'
import type { Dns01Job } from '../../workers/job.ts'
import { validateDns01 } from '../../workers/validate/dns.ts'
import {
  a,
  aaaa,
  cname,
  NXDOMAIN,
  ns,
  type Script,
  type ScriptedDns,
  SERVFAIL,
  serve,
  soa,
  txt,
} from './scripted-dns.ts'
import { assertInvalid, DIGEST, looksOf, RECORD, settingsOf, txtJob } from './scripted-txt.ts'
import { assertValid, FOR_EVER_MS } from './verdicts.ts'

const AA = dnsPacket.AUTHORITATIVE_ANSWER
const right: Script = ({ name }) => ({ flags: AA, answers: [txt(name, DIGEST)] })
const stale: Script = ({ name }) => ({ flags: AA, answers: [txt(name, 'stale')] })
const absent: Script = () => ({ flags: AA, rcode: NXDOMAIN, authorities: [soa('example')] })
const silent: Script = () => 'drop'

type Zones = Record<string, readonly dnsPacket.Answer[]>

/** A resolver that knows these records and nothing else. */
const resolverOf =
  (records: Zones): Script =>
  ({ name, type }) => {
    const known = records[name]
    if (!known) return { rcode: NXDOMAIN, authorities: [soa('example')] }
    return { answers: known.filter((record) => record.type === type || record.type === 'CNAME') }
  }

interface World {
  resolver: ScriptedDns
  /** The zone's own servers, in the order of `scripts`: ns1.example at 127.0.0.2 and so on, on one port. */
  servers: ScriptedDns[]
  job: Dns01Job
}

/** The zone `example` with a server for each script; `changes` overrides what the resolver says. */
async function world(t: TestContext, scripts: readonly Script[], changes: Zones = {}): Promise<World> {
  const servers: ScriptedDns[] = []
  let port = 0
  for (const [index, script] of scripts.entries()) {
    const server = await serve(t, script, `127.0.0.${index + 2}`, { port })
    port = Number(server.resolver.split(':')[1])
    servers.push(server)
  }
  const names = scripts.map((_, index) => `ns${index + 1}.example`)
  const records: Zones = {
    example: names.map((name) => ns('example', name)),
    ...Object.fromEntries(names.map((name, index) => [name, [a(name, `127.0.0.${index + 2}`)]])),
    ...changes,
  }
  const resolver = await serve(t, resolverOf(records))
  const job = txtJob([resolver.resolver], { requireAuthoritative: true, authoritativePort: port || 1 })
  return { resolver, servers, job }
}

const verdictIn = async (t: TestContext, ...scene: [readonly Script[], Zones?]) =>
  validateDns01((await world(t, ...scene)).job)
const assertValidIn = async (t: TestContext, ...scene: [readonly Script[], Zones?]) =>
  assertValid(await verdictIn(t, ...scene))

describe('require_authoritative', () => {
  test('asks the servers of the closest zone, found from the name upwards, without recursion', async (t) => {
    const { resolver, servers, job } = await world(t, [right])
    const verdict = await validateDns01(job)
    assertValid(verdict)
    assert.deepEqual(
      [...new Set(resolver.asked.filter(({ type }) => type === 'NS').map(({ name }) => name))],
      [RECORD, 'demo.example', 'example'],
    )
    assert.deepEqual(
      servers[0]!.asked.map(({ name, type, query }) => [name, type, query.flag_rd]),
      [[RECORD, 'TXT', false]],
    )
    const [look] = looksOf(verdict)
    assert.deepEqual([look?.['via'], look?.['resolver']], ['authoritative', servers[0]!.resolver])
  })
  test('a server of the zone that compares names octet by octet is asked in lower case, too', async (t) => {
    await assertValidIn(t, [
      (asked) => (asked.query.questions![0]!.name === asked.name ? right(asked) : { flags: AA, rcode: NXDOMAIN }),
    ])
  })
  test('servers that agree are right, whatever the order of their records', async (t) => {
    const one: Script = ({ name }) => ({ flags: AA, answers: [txt(name, 'x'), txt(name, DIGEST)] })
    const reversed: Script = ({ name }) => ({ flags: AA, answers: [txt(name, DIGEST), txt(name, 'x')] })
    const { servers, job } = await world(t, [one, reversed])
    const verdict = await validateDns01(job)
    assertValid(verdict)
    assert.equal(looksOf(verdict)[0]?.['resolver'], servers.map(({ resolver }) => resolver).join(', '))
  })
  const nobody = 'look-up failed: no name server of the zone gave an answer'
  const disagree = 'look-up failed: the name servers of the zone do not agree'
  const beside: Script = ({ name }) => ({ flags: AA, answers: [txt(name, DIGEST), txt(name, 'x')] })
  const unlicensed: Script = ({ name }) => ({ answers: [txt(name, DIGEST)] })
  const problems: [what: string, scripts: Script[], changes: Zones, detail: string][] = [
    ['servers that disagree: one has an old record', [right, stale], {}, disagree],
    ['servers that disagree: one has nothing yet', [absent, right], {}, disagree],
    ['servers that disagree: one of three has another record beside it', [right, right, beside], {}, disagree],
    [
      'what only the cache of the resolver has',
      [absent],
      { [RECORD]: [txt(RECORD, DIGEST)] },
      'the name does not exist (NXDOMAIN)',
    ],
    ['a zone whose only server is lame', [unlicensed], {}, `${nobody}: the name server does not serve the zone`],
    [
      'a zone none of whose servers has an address',
      [right],
      { 'ns1.example': [] },
      `${nobody}: no address that may be asked`,
    ],
    ['a name that has no zone', [], { example: [] }, 'look-up failed: no zone was found that the name belongs to'],
  ]
  for (const [what, scripts, changes, detail] of problems)
    test(`${what} is a dns problem worth another try`, async (t) => {
      assertInvalid(await verdictIn(t, scripts, changes), 'dns', detail)
    })
  test('servers that agree a moment later are right within the wait', async (t) => {
    let questions = 0
    const { job } = await world(t, [right, (asked) => (++questions === 1 ? stale(asked) : right(asked))])
    assertValid(await validateDns01({ ...job, propagationWaitMs: 30_000 }))
  })
  const lame: Record<string, Script> = {
    refuses: () => ({ rcode: 5 }),
    fails: () => ({ rcode: SERVFAIL }),
    'refers to others': () => ({ authorities: [ns('example', 'ns9.example')] }),
    'answers without authority': ({ name }) => ({ answers: [txt(name, 'from a cache')] }),
    'denies without authority': () => ({ rcode: NXDOMAIN }),
    'sends bytes that are no message': (asked) => asked.bytes.subarray(0, 5),
    'is silent': silent,
  }
  for (const [what, script] of Object.entries(lame)) {
    test(`a server that ${what} is left out when another one answers`, async (t) => {
      const { servers, job } = await world(t, [script, right])
      const dns = what === 'is silent' ? { ...job.dns, timeoutMs: 3000 } : job.dns
      const verdict = await validateDns01({ ...job, dns })
      assertValid(verdict)
      assert.equal(looksOf(verdict)[0]?.['resolver'], servers[1]!.resolver)
    })
  }
  test('a zone whose servers are all silent is a dns problem within the time of a look-up', async (t) => {
    const { job } = await world(t, [silent, silent])
    const verdict = await validateDns01({ ...job, dns: { ...job.dns, timeoutMs: 1500 } })
    assertInvalid(verdict, 'dns', `${nobody}: no answer in time`)
  })
  test('a server whose name has no address is left out', async (t) => {
    await assertValidIn(t, [right, right], { 'ns2.example': [] })
  })
  test('a server whose address cannot be looked up is left out, and does not hold up the others for long', async (t) => {
    const { resolver, job } = await world(t, [right, right])
    const slow = await serve(t, ({ name }) => (name === 'ns2.example' ? 'drop' : { rcode: SERVFAIL }))
    const zones = [{ zone: 'ns2.example', resolvers: [slow.resolver] }]
    const dns = settingsOf([resolver.resolver], { zones, timeoutMs: FOR_EVER_MS })
    assertValid(await validateDns01({ ...job, timeoutMs: FOR_EVER_MS, dns }))
  })
  test('a server inside a blocked network is not asked (an address in NS records is a stranger’s word)', async (t) => {
    const { servers, job } = await world(t, [right])
    const verdict = await validateDns01({ ...job, blockedNetworks: ['127.0.0.2/32'] })
    assertInvalid(verdict, 'dns', `${nobody}: no address that may be asked`)
    assert.equal(servers[0]!.asked.length, 0)
  })
  test('a blocked server is left out when another one may be asked', async (t) => {
    const { servers, job } = await world(t, [right, right])
    assertValid(await validateDns01({ ...job, blockedNetworks: ['127.0.0.2/32'] }))
    assert.deepEqual([servers[0]?.asked.length, servers[1]?.asked.length], [0, 1])
  })
  test('a server with a dead and a good address is asked at the good one', async (t) => {
    await assertValidIn(t, [right], {
      'ns1.example': [aaaa('ns1.example', '::1'), a('ns1.example', '127.0.0.77'), a('ns1.example', '127.0.0.2')],
    })
  })
  test('a name that is an alias is not taken for a zone of its target', async (t) => {
    const { resolver, job } = await world(t, [right], {
      'demo.example': [cname('demo.example', 'other.test'), ns('other.test', 'ns.other.test')],
    })
    assertValid(await validateDns01(job))
    assert.equal(resolver.asked.at(-1)?.name, 'ns1.example')
  })
  test('a delegated subzone is asked at its own servers', async (t) => {
    const { servers, job } = await world(t, [absent, right], {
      example: [ns('example', 'ns1.example')],
      [RECORD]: [ns(RECORD, 'ns2.example')],
    })
    assertValid(await validateDns01(job))
    assert.deepEqual([servers[0]?.asked.length, servers[1]?.asked.length], [0, 1])
  })
  test('an alias into another zone is asked at that zone’s servers', async (t) => {
    const answers = [cname(RECORD, 'demo.acme.test'), txt('demo.acme.test', 'not its to say')]
    const zones = { example: [ns('example', 'ns1.example')], 'acme.test': [ns('acme.test', 'ns2.example')] }
    const { servers, job } = await world(t, [() => ({ flags: AA, answers }), right], zones)
    const verdict = await validateDns01(job)
    assertValid(verdict)
    assert.deepEqual(
      [looksOf(verdict)[0]?.['aliases'], looksOf(verdict)[0]?.['resolver']],
      [['demo.acme.test'], servers[1]!.resolver],
    )
  })
  test('an alias loop over two zones is a dns problem after few questions', async (t) => {
    const { servers, job } = await world(t, [
      ({ name }) => ({ flags: AA, answers: [cname(name, name === RECORD ? 'b.example' : RECORD)] }),
    ])
    assertInvalid(await validateDns01(job), 'dns', 'look-up failed: aliases (CNAME) form a loop or too long a chain')
    assert.ok(servers[0]!.asked.length <= 3)
  })
  test('a truncated answer of a zone’s server is fetched over TCP', async (t) => {
    await assertValidIn(t, [
      (asked) => (asked.transport === 'udp' ? { flags: AA | dnsPacket.TRUNCATED_RESPONSE } : right(asked)),
    ])
  })
  test('of a hundred servers, eight are asked', async (t) => {
    const { resolver, job } = await world(t, [right], {
      example: Array.from({ length: 100 }, (_, index) => ns('example', `ns${index + 1}.example`)),
    })
    assertValid(await validateDns01(job))
    assert.ok(new Set(resolver.asked.filter(({ type }) => type === 'A').map(({ name }) => name)).size <= 8)
  })
  test('a resolver that fails on the way to the zone is a dns problem', async (t) => {
    const resolver = await serve(t, () => ({ rcode: SERVFAIL }))
    const job = txtJob([resolver.resolver], { requireAuthoritative: true })
    assertInvalid(await validateDns01(job), 'dns', 'look-up failed: the name server answered SERVFAIL')
  })
  test('the resolvers of a zone are asked for its name servers (split horizon)', async (t) => {
    const { resolver, job } = await world(t, [right])
    const outside = await serve(t, () => ({ rcode: NXDOMAIN }))
    const zones = [{ zone: 'example', resolvers: [resolver.resolver] }]
    assertValid(await validateDns01({ ...job, dns: settingsOf([outside.resolver], { zones }) }))
    assert.equal(outside.asked.length, 0)
  })
})

describe('require_authoritative and require_dnssec together', () => {
  /** The resolver answers TXT itself, as `says` has it. */
  async function both(t: TestContext, server: Script, says: ReturnType<Script> & object): Promise<Dns01Job> {
    const inner = await world(t, [server])
    const validating = await serve(t, (asked) => {
      if (asked.type === 'TXT') return says
      return resolverOf({ example: [ns('example', 'ns1.example')], 'ns1.example': [a('ns1.example', '127.0.0.2')] })(
        asked,
      )
    })
    return { ...inner.job, requireDnssec: true, dns: settingsOf([validating.resolver]) }
  }
  const authenticated = { flags: dnsPacket.AUTHENTIC_DATA, answers: [txt(RECORD, DIGEST)] }

  test('the record has to be in both places', async (t) => {
    const verdict = await validateDns01(await both(t, right, authenticated))
    assertValid(verdict)
    assert.deepEqual(
      looksOf(verdict).map(({ via, authenticated }) => [via, authenticated]),
      [
        ['authoritative', false],
        ['resolver', true],
      ],
    )
  })
  test('a resolver that does not authenticate it is a dns problem', async (t) => {
    const job = await both(t, right, { answers: [txt(RECORD, DIGEST)] })
    assertInvalid(await validateDns01(job), 'dns', 'the answer is not authenticated by DNSSEC', { retryable: false })
  })
  test('a zone’s server without it is a dns problem', async (t) => {
    const job = await both(t, absent, authenticated)
    assertInvalid(await validateDns01(job), 'dns', 'the name does not exist (NXDOMAIN)')
  })
})
