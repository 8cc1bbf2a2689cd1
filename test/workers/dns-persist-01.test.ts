/** dns-persist-01 against a scripted name server (draft-ietf-acme-dns-persist). */

import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import dnsPacket from 'dns-packet'
import { hashedAccountUri } from '../../src/shared/protocol/challenge.ts'
import type { DnsPersist01Job, EvidenceStep, ValidationVerdict } from '../../workers/job.ts'
import { validateDnsPersist01 } from '../../workers/validate/dns.ts'
import { each } from '../support/each.ts'
import { WAIT_MS } from '../support/patience.ts'
import {
  type Asked,
  a,
  cname,
  encodeReply,
  NXDOMAIN,
  ONE_LOOK,
  type Reply,
  type Script,
  type ScriptedDns,
  SERVFAIL,
  serve,
  soa,
  viaTcp,
} from './scripted-dns.ts'
import { assertInvalid as assertInvalidVerdict, stepsOf as stepsOfVerdict } from './verdicts.ts'

const URL = 'https://ca.example/acct/1'
const RIGHT = `ca.example; accounturi=${URL}`
const WILD = `${RIGHT}; policy=wildcard`
const EXPIRED = `${RIGHT}; persistUntil=1`
const ANOTHER = 'ca.example; accounturi=https://ca.example/acct/2'
const NAME = 'www.dept.corp.test'
const AT = `_validation-persist.${NAME}`
const ABOVE = '_validation-persist.dept.corp.test'
const TOP = '_validation-persist.corp.test'
const DAY = 86_400

const txt = (name: string, data: string | string[] | Buffer, ttl = DAY): dnsPacket.Answer => ({
  type: 'TXT',
  name,
  data,
  ttl,
})

/** Texts by name; NXDOMAIN for every other name. */
const zone =
  (texts: Record<string, readonly string[]>, ttl = DAY): Script =>
  ({ name }) => {
    const found = texts[name]
    return found ? { answers: found.map((text) => txt(name, inStrings(text), ttl)) } : { rcode: NXDOMAIN }
  }

/** RFC 1035 §3.3.14: at most 255 octets a string. */
function inStrings(text: string): string[] {
  return text.match(/[\s\S]{1,255}/g) ?? ['']
}

interface Run {
  verdict: ValidationVerdict
  asked: Asked[]
}

async function run(t: TestContext, script: Script, over: Partial<DnsPersist01Job> = {}): Promise<Run> {
  const dns = await serve(t, script)
  const verdict = await validateDnsPersist01({
    type: 'dns-persist-01',
    identifier: { type: 'dns', value: NAME },
    wildcard: false,
    accountUrl: URL,
    issuerDomainNames: ['ca.example', 'ca2.example'],
    allowWildcardPolicy: true,
    allowSubdomainPolicy: false,
    timeoutMs: 2 * WAIT_MS,
    requireDnssec: false,
    requireAuthoritative: false,
    propagationWaitMs: 0,
    blockedNetworks: [],
    dns: { resolvers: [dns.resolver], zones: [], timeoutMs: WAIT_MS, retries: 1 },
    ...over,
  })
  return { verdict, asked: dns.asked }
}

function assertValid({ verdict }: Run, validForSeconds: number | 'without bound' = DAY): void {
  assert.ok(verdict.ok, JSON.stringify(verdict))
  assert.equal(verdict.validForSeconds ?? 'without bound', validForSeconds)
}

const assertInvalid = ({ verdict }: Run, ...expected: [problem: string, retryable: boolean, detail: RegExp]) =>
  assertInvalidVerdict(verdict, ...expected)

/** A name without the record is asked for in two cases of letters. */
const names = ({ asked }: Run) => [...new Set(asked.map(({ name }) => name))]
const stepsOf = ({ verdict }: Run, step: string) => stepsOfVerdict(verdict, step)

describe('a right record', () => {
  test('is found where the draft has it, with its TTL as the lifetime', async (t) => {
    const result = await run(t, zone({ [AT]: [RIGHT] }))
    assertValid(result)
    assert.deepEqual(
      result.asked.map(({ name, type }) => `${type} ${name}`),
      [`TXT ${AT}`],
    )
  })

  test('counts beside 200 others, over TCP', async (t) => {
    const decoys = Array.from({ length: 200 }, (_, i) => `decoy${i}.example; accounturi=https://decoy.example/${i}`)
    const answer = (name: string) => ({ answers: [...decoys, RIGHT].map((text) => txt(name, text)) })
    const result = await run(t, ({ name, transport, query }) =>
      transport === 'tcp'
        ? answer(name)
        : encodeReply(query, { flags: dnsPacket.TRUNCATED_RESPONSE, answers: [txt(name, RIGHT)] }),
    )
    assertValid(result)
    assert.deepEqual(each(result.asked, 'transport'), ['udp', 'tcp'])
    assert.equal(stepsOf(result, 'looked-up')[0]?.['records'], 201)
  })

  test('may be cut into strings anywhere (RFC 1035 §3.3.14)', async (t) => {
    const parts = ['ca.exa', 'mple; acc', `ounturi=${URL.slice(0, 9)}`, URL.slice(9), '']
    assertValid(await run(t, ({ name }) => ({ answers: [txt(name, parts)] })))
  })

  test('may be longer than one string', async (t) => {
    assertValid(await run(t, zone({ [AT]: [`${RIGHT}; note=${'x'.repeat(3000)}`] })))
  })

  test('may stand behind a CNAME, whose TTL counts too', async (t) => {
    const result = await run(t, ({ name }) => ({
      answers: [cname(name, 'persist.hosting.test'), txt('persist.hosting.test', RIGHT)],
    }))
    assertValid(result, 60)
    assert.deepEqual(stepsOf(result, 'looked-up')[0]?.['aliases'], ['persist.hosting.test'])
  })

  test('may be answered in another case', async (t) => {
    assertValid(await run(t, () => ({ answers: [txt(AT.toUpperCase(), RIGHT)] })))
  })

  test('with a TTL of zero grants a minute', async (t) => {
    assertValid(await run(t, zone({ [AT]: [RIGHT] }, 0)), 60)
  })

  test('is bounded by persistUntil', async (t) => {
    const until = Math.floor(Date.now() / 1000) + 1000
    const { verdict } = await run(t, zone({ [AT]: [`${RIGHT}; persistUntil=${until}`] }))
    assert.ok(verdict.ok)
    assert.ok(verdict.validForSeconds !== undefined && verdict.validForSeconds <= 1000 && verdict.validForSeconds > 800)
  })

  test('is found again by the second server when the first fails', async (t) => {
    const [broken, good] = [await serve(t, () => ({ rcode: SERVFAIL })), await serve(t, zone({ [AT]: [RIGHT] }))]
    const resolvers = [broken.resolver, good.resolver]
    assertValid(await run(t, () => 'drop', { dns: { resolvers, zones: [], timeoutMs: WAIT_MS, retries: 1 } }))
  })
})

describe('wildcards', () => {
  const wildcard = { wildcard: true }
  test('are authorized by policy=wildcard at the name without *.', async (t) => {
    const result = await run(t, zone({ [AT]: [WILD] }), wildcard)
    assertValid(result)
    assert.deepEqual(names(result), [AT])
  })
  test('are not authorized without it', async (t) => {
    assertInvalid(await run(t, zone({ [AT]: [RIGHT] }), wildcard), 'unauthorized', false, /lacks policy=wildcard/)
  })
  test('are not authorized where allow_wildcard_policy is off', async (t) => {
    const result = await run(t, zone({ [AT]: [WILD] }), { ...wildcard, allowWildcardPolicy: false })
    assertInvalid(result, 'unauthorized', false, /does not allow/)
  })
})

describe('names above', () => {
  const below = { allowSubdomainPolicy: true }

  test('are not asked unless allow_subdomain_policy is on', async (t) => {
    const result = await run(t, zone({ [TOP]: [WILD] }))
    assertInvalid(result, 'dns', true, /NXDOMAIN/)
    assert.deepEqual(names(result), [AT])
  })
  test('authorize with policy=wildcard, the closest first, down to two labels', async (t) => {
    const result = await run(t, zone({ [TOP]: [WILD] }), below)
    assertValid(result)
    assert.deepEqual(names(result), [AT, ABOVE, TOP])
  })
  test('are not asked once a closer one authorizes', async (t) => {
    const result = await run(t, zone({ [ABOVE]: [WILD], [TOP]: [WILD] }), below)
    assertValid(result)
    assert.deepEqual(names(result), [AT, ABOVE])
  })
  test('never include a top-level domain', async (t) => {
    const result = await run(t, zone({ '_validation-persist.test': [WILD] }), below)
    assertInvalid(result, 'dns', true, /NXDOMAIN/)
    assert.deepEqual(names(result), [AT, ABOVE, TOP])
  })
  test('never include a public suffix of several labels', async (t) => {
    const identifier = { type: 'dns' as const, value: 'a.b.shop.co.test' }
    const script = zone({ '_validation-persist.co.test': [WILD] })
    const result = await run(t, script, { ...below, identifier, leastLabelsAbove: 3 })
    assertInvalid(result, 'dns', true, /NXDOMAIN/)
    assert.deepEqual(
      names(result),
      ['a.b.shop.co.test', 'b.shop.co.test', 'shop.co.test'].map((name) => `_validation-persist.${name}`),
    )
  })
  test('do not authorize without policy=wildcard', async (t) => {
    const result = await run(t, zone({ [TOP]: [RIGHT] }), below)
    assertInvalid(
      result,
      'unauthorized',
      true,
      /^TXT _validation-persist\.corp\.test: the record lacks policy=wildcard/,
    )
  })
  test('authorize wildcards below them', async (t) => {
    assertValid(await run(t, zone({ [TOP]: [WILD] }), { ...below, wildcard: true }))
  })
  test('authorize although the closer record has expired', async (t) => {
    assertValid(await run(t, zone({ [AT]: [EXPIRED], [TOP]: [WILD] }), below))
  })
  test('authorize although the closer look-up fails', async (t) => {
    const script: Script = (asked) => (asked.name === AT ? { rcode: SERVFAIL } : zone({ [TOP]: [WILD] })(asked))
    assertValid(await run(t, script, below))
  })
  test('leave the client the word of the closest record that names this server', async (t) => {
    const result = await run(t, zone({ [AT]: ['v=1'], [ABOVE]: [EXPIRED], [TOP]: [ANOTHER] }), below)
    assertInvalid(result, 'unauthorized', true, /^TXT _validation-persist\.dept\.corp\.test: the record has expired/)
  })
  test('bring their own TTL', async (t) => {
    const script: Script = ({ name }) => (name === TOP ? { answers: [txt(TOP, WILD, 700)] } : { rcode: NXDOMAIN })
    assertValid(await run(t, script, below), 700)
  })
  test('of a name with many labels are asked within the one deadline', async (t) => {
    const identifier = { type: 'dns' as const, value: `${'a.'.repeat(100)}corp.test` }
    const result = await run(t, zone({ [TOP]: [WILD] }), { ...below, identifier })
    assertValid(result)
    assert.equal(names(result).length, 101)
  })
  test('are given up with the deadline', async (t) => {
    const result = await run(t, () => 'drop', { ...below, timeoutMs: 300 })
    assertInvalid(result, 'dns', true, /look-up failed: no answer in time/)
  })
})

describe('draft 02', () => {
  const hashed = { prefix: 'https://ca.example/account-hash/', thumbprints: ['t'.repeat(43), 'f'.repeat(43)] }
  const uri = (domainName: string, thumbprint = hashed.thumbprints[0] as string) =>
    `ca.example; policy=wildcard; accounturi=${hashedAccountUri(hashed.prefix, { domainName, thumbprint, accountUrl: URL })}`

  test('the hash for the name counts, and no TTL', async (t) => {
    assertValid(await run(t, zone({ [AT]: [uri(NAME)] }, 30), { hashed }), 'without bound')
  })
  test('the hash of a former key for any name counts', async (t) => {
    assertValid(await run(t, zone({ [AT]: [uri('*', hashed.thumbprints[1])] }), { hashed }), 'without bound')
  })
  test('a name above has the hash of its own name', async (t) => {
    const above = { hashed, allowSubdomainPolicy: true }
    assertValid(await run(t, zone({ [TOP]: [uri('corp.test')] }), above), 'without bound')
    assertInvalid(await run(t, zone({ [TOP]: [uri(NAME)] }), above), 'unauthorized', true, /another account/)
  })
  test('the account URL counts as before', async (t) => {
    assertValid(await run(t, zone({ [AT]: [RIGHT] }), { hashed }))
  })
  test('while draft 01 counts, the hash does not', async (t) => {
    assertInvalid(await run(t, zone({ [AT]: [uri(NAME)] })), 'unauthorized', true, /another account/)
  })
})

describe('what does not authorize', () => {
  const rows: [what: string, script: Script, problem: string, retryable: boolean, detail: RegExp][] = [
    ['no such name', zone({}), 'dns', true, /NXDOMAIN/],
    ['no TXT record', () => ({ authorities: [soa('corp.test')] }), 'dns', true, /no TXT record$/],
    [
      'a record for another service',
      zone({ [AT]: ['other.example; x=y'] }),
      'unauthorized',
      true,
      /names ca\.example or/,
    ],
    ['a record of another account', zone({ [AT]: [ANOTHER] }), 'unauthorized', true, /another account than https/],
    ['a malformed record', zone({ [AT]: [`${RIGHT};`] }), 'malformed', false, /not an issue value/],
    ['an expired record', zone({ [AT]: [EXPIRED] }), 'unauthorized', false, /expired/],
    ['SERVFAIL', () => ({ rcode: SERVFAIL }), 'dns', true, /SERVFAIL/],
    ['REFUSED', () => ({ rcode: 5 }), 'dns', true, /REFUSED/],
    ['silence', () => 'drop', 'dns', true, /no answer in time/],
    ['noise', () => Buffer.from('noise'), 'dns', true, /./],
    [
      'a loop of CNAMEs',
      ({ name }) => ({ answers: [cname(name, 'a.test'), cname('a.test', name)] }),
      'dns',
      true,
      /loop/,
    ],
    ['records of another name', () => ({ answers: [txt('x.test', RIGHT)] }), 'dns', true, /answered for another name/],
    ['an empty record', ({ name }) => ({ answers: [txt(name, '')] }), 'unauthorized', true, /no record names/],
  ]
  for (const [what, script, problem, retryable, detail] of rows)
    test(what, async (t) => {
      const isWaitedFor = what === 'silence' || what === 'noise'
      const result = await run(t, script, isWaitedFor ? { timeoutMs: 1200 } : {})
      assertInvalid(result, problem, retryable, detail)
    })

  test('bytes of a record never reach the client', async (t) => {
    const result = await run(t, zone({ [AT]: [`${RIGHT}; secret=\u0001<script>`] }))
    assertInvalid(result, 'malformed', false, /^[^<>]*$/)
  })

  test('a name too long to carry the label', async (t) => {
    const identifier = { type: 'dns' as const, value: `${'abcdefghi.'.repeat(24)}test` }
    const result = await run(t, zone({}), { identifier })
    assertInvalid(result, 'dns', false, /not a name that can be looked up/)
    assert.deepEqual(names(result), [])
  })
})

describe('DNSSEC', () => {
  const required = { requireDnssec: true }
  const authenticated = (reply: Reply): Reply => ({ ...reply, flags: dnsPacket.AUTHENTIC_DATA })

  test('is asked for and accepted when it is required', async (t) => {
    const result = await run(t, ({ name }) => authenticated({ answers: [txt(name, RIGHT)] }), required)
    assertValid(result)
    assert.ok(result.asked[0]?.query.flag_ad)
  })
  test('an answer without it is refused', async (t) => {
    assertInvalid(await run(t, zone({ [AT]: [RIGHT] }), required), 'dns', false, /DNSSEC/)
  })
})

describe("the zone's own name servers", () => {
  const authority: Script = ({ name, type, query }) => {
    // A server of the zone is asked without recursion, the resolver with it.
    const flags = query.flag_rd ? dnsPacket.AUTHENTIC_DATA : dnsPacket.AUTHORITATIVE_ANSWER
    if (type === 'NS' && name === 'corp.test')
      return { flags, answers: [{ type: 'NS', name, ttl: 60, data: 'ns.corp.test' }] }
    if (type === 'A' && name === 'ns.corp.test') return { flags, answers: [a(name, '127.0.0.1')] }
    if (type === 'TXT' && name === AT) return { flags, answers: [txt(name, RIGHT, query.flag_rd ? 700 : 900)] }
    return { flags, authorities: [soa('corp.test')] }
  }
  const port = (dns: ScriptedDns) => Number(dns.resolver.split(':')[1])

  for (const requireDnssec of [false, true]) {
    test(`are asked when that is required${requireDnssec ? ', and the resolver for the AD bit' : ''}`, async (t) => {
      const servers = await serve(t, authority)
      const result = await run(t, () => 'drop', {
        requireAuthoritative: true,
        requireDnssec,
        authoritativePort: port(servers),
        dns: { resolvers: [servers.resolver], zones: [], timeoutMs: WAIT_MS, retries: 1 },
      })
      assertValid(result, requireDnssec ? 700 : 900)
      const ways = stepsOf(result, 'looked-up').map(({ via }) => via)
      assert.deepEqual(ways, requireDnssec ? ['authoritative', 'resolver'] : ['authoritative'])
    })
  }
})

describe('a record on its way', () => {
  test('is waited for within propagation_wait_seconds', async (t) => {
    let looks = 0
    const script: Script = ({ name }) => (++looks <= ONE_LOOK ? { rcode: NXDOMAIN } : { answers: [txt(name, RIGHT)] })
    const result = await run(t, script, { propagationWaitMs: 30_000 })
    assertValid(result)
    assert.equal(result.asked.length, ONE_LOOK + 1)
  })
  test('is not waited for where the record says no', async (t) => {
    const result = await run(t, zone({ [AT]: [EXPIRED] }), { propagationWaitMs: 30_000 })
    assertInvalid(result, 'unauthorized', false, /expired/)
    assert.equal(result.asked.length, 1)
  })
})

describe('evidence', () => {
  test('holds who was asked, what was found and how long it took, within bounds', async (t) => {
    const many = Array.from({ length: 30 }, (_, i) => `ca.example; note${i}=${'x'.repeat(200)}${'y'.repeat(400)}`)
    const answers = (name: string) => [...many.map((text) => txt(name, inStrings(text))), txt(name, 'v=1')]
    const result = await run(
      t,
      viaTcp(({ name }) => ({ answers: answers(name) })),
    )
    const found = stepsOf(result, 'looked-up')[0] as EvidenceStep
    const ours = found['ours'] as { text: string }[]
    assert.equal(found['name'], AT)
    assert.match(String(found['resolver']), /^127\.0\.0\.1:\d+$/)
    assert.equal(found['records'], 31)
    assert.equal(ours.length, 10)
    assert.ok(ours.every(({ text }) => text.length <= 512))
    assert.equal(typeof stepsOf(result, 'finished')[0]?.['durationMs'], 'number')
  })
})
