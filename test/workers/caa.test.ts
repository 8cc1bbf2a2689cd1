/** Finding CAA records: climbing, aliases, failures and the zones where they are no obstacle (RFC 8659 §3, BR 3.2.2.8). */

import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import dnsPacket from 'dns-packet'
import { checkCaa } from '../../workers/caa-check.ts'
import type { CaaFinding, CaaJob, CaaSubject, DnsSettings } from '../../workers/job.ts'
import { each } from '../support/each.ts'
import { WAIT_MS } from '../support/patience.ts'
import { caa, caaScript } from './scripted-caa.ts'
import {
  type Asked,
  cname,
  comparingOctets,
  encodeReply,
  NXDOMAIN,
  type Reply,
  type Script,
  type ScriptedDns,
  SERVFAIL,
  serve,
  soa,
} from './scripted-dns.ts'
import { FOR_EVER_MS } from './verdicts.ts'

const ACCOUNT = 'https://acme.example/acct/1'
const ds = (name: string): dnsPacket.Answer => ({
  type: 'DS',
  name,
  ttl: 60,
  data: { keyTag: 1, algorithm: 13, digestType: 2, digest: Buffer.alloc(32) },
})

type Over = Partial<Omit<CaaJob, 'dns'>> & { dns?: Partial<DnsSettings> }

function aJob(server: ScriptedDns, names: readonly (string | CaaSubject)[], over: Over = {}): CaaJob {
  const { dns, ...more } = over
  return {
    subjects: names.map((name) => (typeof name === 'string' ? { name, wildcard: false, method: 'http-01' } : name)),
    identities: ['ca.example'],
    accountUri: ACCOUNT,
    unreachableOk: [],
    timeoutMs: 2 * WAIT_MS,
    dns: { resolvers: [server.resolver], zones: [], timeoutMs: WAIT_MS, retries: 2, ...dns },
    ...more,
  }
}

async function checkOne(server: ScriptedDns, name: string | CaaSubject, over: Over = {}) {
  const [finding] = await checkCaa(aJob(server, [name], over))
  return finding as CaaFinding & { detail?: string }
}
const checkOn = async (t: TestContext, script: Script, name: string | CaaSubject, over?: Over) =>
  checkOne(await serve(t, script), name, over)
const askedFor = ({ asked }: ScriptedDns, type = 'CAA') =>
  [...new Set(asked.filter((query) => query.type === type).map(({ name }) => name))].toSorted()
/** What another name does not settle: an answer by name, and everything else without records. */
const byName =
  (answers: Record<string, Reply | 'drop' | ((type: string) => Reply | 'drop')>): Script =>
  ({ name, type }) => {
    const answer = answers[name] ?? {}
    return typeof answer === 'function' ? answer(type) : answer
  }

describe('climbing (RFC 8659 §3)', () => {
  test('a name without records up to the top permits, and each level was asked', async (t) => {
    const server = await serve(t, caaScript({}))
    assert.equal((await checkOne(server, 'a.b.host.example')).result, 'permitted')
    assert.deepEqual(askedFor(server), ['a.b.host.example', 'b.host.example', 'example', 'host.example'])
  })
  test('the root is not asked', async (t) => {
    const server = await serve(t, caaScript({ '': ['0 issue ";"'], '.': ['0 issue ";"'] }))
    assert.equal((await checkOne(server, 'host.example')).result, 'permitted')
    assert.deepEqual(askedFor(server), ['example', 'host.example'])
  })
  for (const holder of ['a.host.example', 'host.example', 'example']) {
    test(`records at ${holder} forbid a.host.example, and the detail names ${holder}`, async (t) => {
      const server = await serve(t, caaScript({ [holder]: ['0 issue "other.example"'] }))
      const finding = await checkOne(server, 'a.host.example')
      assert.equal(finding.result, 'forbidden')
      assert.ok(finding.detail?.startsWith(`the CAA records of ${holder} do not permit`), finding.detail)
      assert.doesNotMatch(finding.detail ?? '', /other\.example/)
    })
  }
  const zones: [what: string, zone: Record<string, string>, result: 'permitted' | 'forbidden'][] = [
    [
      'the closest records decide: a permission below a prohibition',
      { 'a.host.example': '0 issue "ca.example"', 'host.example': '0 issue ";"' },
      'permitted',
    ],
    [
      'the closest records decide: a prohibition below a permission',
      { 'a.host.example': '0 issue ";"', 'host.example': '0 issue "ca.example"' },
      'forbidden',
    ],
    [
      'a set without issue properties ends the climb as well',
      { 'a.host.example': '0 iodef "mailto:a@b.example"', 'host.example': '0 issue ";"' },
      'permitted',
    ],
  ]
  for (const [what, zone, result] of zones)
    test(what, async (t) => {
      const script = caaScript(Object.fromEntries(Object.entries(zone).map(([name, line]) => [name, [line]])))
      assert.equal((await checkOn(t, script, 'a.host.example')).result, result)
    })
  test('a parent that answers first does not decide before its child', async (t) => {
    const script = caaScript({ 'a.host.example': ['0 issue "ca.example"'], 'host.example': ['0 issue ";"'] })
    const slow: Script = async (asked) => {
      if (asked.name === 'a.host.example') await sleep(80)
      return script(asked)
    }
    assert.equal((await checkOn(t, slow, 'a.host.example')).result, 'permitted')
  })
  test('a name that does not exist is climbed from', async (t) => {
    const script = byName({
      'a.host.example': { rcode: NXDOMAIN, authorities: [soa('host.example')] },
      'host.example': { answers: [caa('host.example', '0 issue ";"')] },
    })
    assert.equal((await checkOn(t, script, 'a.host.example')).result, 'forbidden')
  })
  test('forty labels are climbed to the last', async (t) => {
    const server = await serve(t, caaScript({ example: ['0 issue ";"'] }))
    assert.equal((await checkOne(server, `${'a.'.repeat(39)}example`)).result, 'forbidden')
    assert.equal(askedFor(server).length, 40)
  })
  for (const holder of ['a-name-of-many-letters.example', 'example'])
    test(`records of ${holder} count where its server compares names octet by octet`, async (t) => {
      const server = await serve(t, comparingOctets(caaScript({ [holder]: ['0 issue "other.example"'] })))
      assert.equal((await checkOne(server, 'a-name-of-many-letters.example')).result, 'forbidden')
    })
  test('records that came over TCP count', async (t) => {
    const lines = Array.from({ length: 100 }, (_, i) => `0 issue "other${i}.example"`)
    const script = caaScript({ 'host.example': [...lines, '0 issue "ca.example"'] })
    const server = await serve(t, (asked) =>
      asked.transport === 'udp' && asked.name === 'host.example'
        ? { flags: dnsPacket.TRUNCATED_RESPONSE }
        : script(asked),
    )
    assert.equal((await checkOne(server, 'host.example')).result, 'permitted')
  })
})

describe('aliases (RFC 8659 §3, §7)', () => {
  test('records at the target count for the alias, and the detail names the alias', async (t) => {
    const answers = [cname('www.host.example', 'cdn.other.example'), caa('cdn.other.example', '0 issue ";"')]
    const finding = await checkOn(t, byName({ 'www.host.example': { answers } }), 'www.host.example')
    assert.equal(finding.result, 'forbidden')
    assert.match(finding.detail ?? '', /of www\.host\.example do not/)
  })
  test('the parents of the target are not climbed; those of the name are', async (t) => {
    const alias = {
      answers: [cname('www.host.example', 'cdn.other.example')],
      authorities: [soa('other.example')],
    }
    const server = await serve(
      t,
      byName({
        'www.host.example': alias,
        'other.example': { answers: [caa('other.example', '0 issue ";"')] },
        'host.example': { answers: [caa('host.example', '0 issue "ca.example"')] },
      }),
    )
    assert.equal((await checkOne(server, 'www.host.example')).result, 'permitted')
    assert.ok(!askedFor(server).includes('other.example'))
  })
  test('an alias in a parent is followed too', async (t) => {
    const answers = [cname('host.example', 'target.example'), caa('target.example', '0 issue ";"')]
    assert.equal((await checkOn(t, byName({ 'host.example': { answers } }), 'a.host.example')).result, 'forbidden')
  })
  test('a loop of aliases is a failed look-up', async (t) => {
    const answers = [cname('host.example', 'b.example'), cname('b.example', 'host.example')]
    const finding = await checkOn(t, byName({ 'host.example': { answers } }), 'host.example')
    assert.equal(finding.result, 'failed')
    assert.match(finding.detail ?? '', /^CAA look-up of host\.example failed: aliases/)
  })
  test('a chain of twenty aliases is a failed look-up', async (t) => {
    const server = await serve(t, ({ name }) => {
      const at = /^a(\d+)\.example$/.exec(name)?.[1]
      return at === undefined ? {} : { answers: [cname(name, `a${Number(at) + 1}.example`)] }
    })
    assert.equal((await checkOne(server, 'a1.example')).result, 'failed')
    assert.ok(server.asked.length < 30, `${server.asked.length} queries`)
  })
})

describe('wildcards and methods', () => {
  test('issuewild of the name without *. governs', async (t) => {
    const server = await serve(t, caaScript({ 'host.example': ['0 issue ";"', '0 issuewild "ca.example"'] }))
    assert.equal(
      (await checkOne(server, { name: 'host.example', wildcard: true, method: 'dns-01' })).result,
      'permitted',
    )
    assert.equal((await checkOne(server, 'host.example')).result, 'forbidden')
    assert.deepEqual(askedFor(server), ['example', 'host.example'])
  })
  test('the method and the account are those of the subject and the job', async (t) => {
    const value = `ca.example; accounturi=${ACCOUNT}; validationmethods=dns-01,dns-persist-01`
    const server = await serve(t, caaScript({ 'host.example': [`0 issue "${value}"`] }))
    const methods = ['dns-01', 'dns-persist-01', 'http-01', undefined]
    const subjects = methods.map((method) => ({ name: 'host.example', wildcard: false, ...(method && { method }) }))
    const findings = await checkCaa(aJob(server, subjects))
    assert.deepEqual(each(findings, 'result'), ['permitted', 'permitted', 'forbidden', 'forbidden'])
    const other = await checkOne(
      server,
      { name: 'host.example', wildcard: false, method: 'dns-01' },
      { accountUri: `${ACCOUNT}0` },
    )
    assert.equal(other.result, 'forbidden')
  })
  test('a hundred names of one zone ask for their parents once', async (t) => {
    const server = await serve(
      t,
      caaScript({ 'host.example': ['0 issue "ca.example"'], 'n7.host.example': ['0 issue ";"'] }),
    )
    const names = Array.from({ length: 100 }, (_, i) => `n${i}.host.example`)
    const findings = await checkCaa(aJob(server, names))
    assert.deepEqual(
      findings.flatMap(({ result }, i) => (result === 'forbidden' ? [i] : [])),
      [7],
    )
    assert.equal(askedFor(server).length, 102)
    assert.equal(server.asked.filter(({ name }) => name === 'host.example').length, 1)
  })
})

test('a check of many names raises no warning about its listeners', async (t) => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  t.after(() => process.removeListener('warning', onWarning))
  const server = await serve(t, caaScript({}))
  await checkCaa(
    aJob(
      server,
      Array.from({ length: 30 }, (_, i) => `a.b.c.n${i}.host.example`),
    ),
  )
  // Warnings are told of at the next turn.
  await sleep(10)
  assert.deepEqual(warnings, [])
})

describe('look-ups that fail', () => {
  const failures: Record<string, (asked: Asked) => ReturnType<Script>> = {
    SERVFAIL: () => ({ rcode: SERVFAIL }),
    REFUSED: () => ({ rcode: 5 }),
    silence: () => 'drop',
    'bytes that are no message': ({ bytes }) => Buffer.concat([responseHead(bytes), Buffer.alloc(3)]),
    'an answer to another question': ({ query }) =>
      encodeReply({ ...query, questions: [{ type: 'CAA', name: 'x.example', class: 'IN' }] }, {}),
  }
  for (const [what, answer] of Object.entries(failures)) {
    test(`${what} is a failure, in time, whatever the parents say`, async (t) => {
      const script: Script = (asked) => (asked.name === 'host.example' ? answer(asked) : {})
      const finding = await checkOn(t, script, 'host.example', { timeoutMs: 800, dns: { timeoutMs: 400 } })
      assert.equal(finding.result, 'failed')
      assert.match(finding.detail ?? '', /^CAA look-up of host\.example failed: /)
    })
  }
  test('an answer in random case and silence in lower case is a failure', async (t) => {
    const server = await serve(t, ({ name, query }) => (query.questions![0]!.name === name ? 'drop' : {}))
    const finding = await checkOne(server, 'a-name-of-many-letters.example', { timeoutMs: 500 })
    assert.equal(finding.result, 'failed')
  })
  test('a failing parent of a name without records is a failure', async (t) => {
    const finding = await checkOn(t, byName({ 'host.example': { rcode: SERVFAIL } }), 'a.host.example')
    assert.equal(finding.result, 'failed')
    assert.match(finding.detail ?? '', /of host\.example failed: the name server answered SERVFAIL/)
  })
  test('a failing parent of a name with records does not matter, and is not waited for', async (t) => {
    const server = await serve(
      t,
      byName({
        'a.host.example': { answers: [caa('a.host.example', '0 issue "ca.example"')] },
        'host.example': 'drop',
      }),
    )
    // Who waited for it would outlast the test.
    const over = { timeoutMs: FOR_EVER_MS, dns: { timeoutMs: FOR_EVER_MS } }
    assert.equal((await checkOne(server, 'a.host.example', over)).result, 'permitted')
  })
  test('malformed record data is a failure and not an absent record', async (t) => {
    for (const data of ['00', '0000', '0005697373', '00ff6973737565']) {
      const raw: dnsPacket.Answer = {
        type: 'UNKNOWN_257' as never,
        name: 'host.example',
        ttl: 60,
        data: Buffer.from(data, 'hex') as never,
      }
      const server = await serve(t, ({ name, type }) =>
        name === 'host.example' && type === 'CAA' ? { answers: [raw] } : {},
      )
      const refusal = 'CAA look-up of host.example failed: the name server sent a malformed answer'
      assert.equal((await checkOne(server, 'host.example')).detail, refusal, data)
    }
  })
  test('all subjects together end within the bound of the job', async (t) => {
    const server = await serve(t, () => 'drop')
    const names = Array.from({ length: 60 }, (_, i) => `n${i}.a.b.c.d.host${i}.example`)
    const findings = await checkCaa(aJob(server, names, { timeoutMs: 500, dns: { timeoutMs: FOR_EVER_MS } }))
    assert.equal(findings.length, 60)
    assert.ok(findings.every(({ result }) => result === 'failed'))
  })
})

describe('zones whose name servers may be out of reach', () => {
  const down: Script = ({ name, type }) =>
    /(^|\.)corp\.example$/.test(name) && type === 'CAA' ? { rcode: SERVFAIL } : {}
  const unreachableOk = ['corp.example']

  test('a failed look-up inside such a zone counts as no records', async (t) => {
    const finding = await checkOn(t, down, 'a.corp.example', { unreachableOk })
    assert.equal(finding.result, 'excepted')
    assert.ok(finding.evidence.some(({ step, zone }) => step === 'caa-not-found' && zone === 'corp.example'))
  })
  test('without the list, and for names beside the zone, it is a failure', async (t) => {
    const server = await serve(t, down)
    for (const unreachableOk of [[], ['b.corp.example', 'orp.example']])
      assert.equal((await checkOne(server, 'a.corp.example', { unreachableOk })).result, 'failed')
  })
  test('a look-up that fails is repeated before it counts', async (t) => {
    let failed = false
    const zone = caaScript({ 'corp.example': ['0 issue ";"'] })
    const script: Script = (asked) => {
      if (failed || asked.name !== 'corp.example') return zone(asked)
      failed = true
      return { rcode: SERVFAIL }
    }
    assert.equal((await checkOn(t, script, 'corp.example', { unreachableOk })).result, 'forbidden')
  })
  test('the zones above still decide', async (t) => {
    const script: Script = (asked) =>
      asked.name === 'example' && asked.type === 'CAA' ? { answers: [caa('example', '0 issue ";"')] } : down(asked)
    assert.equal((await checkOn(t, script, 'a.corp.example', { unreachableOk })).result, 'forbidden')
  })
  test('records that can be looked up are kept to', async (t) => {
    const script = caaScript({ 'corp.example': ['0 issue ";"'] })
    assert.equal((await checkOn(t, script, 'a.corp.example', { unreachableOk })).result, 'forbidden')
  })
  test('a zone that the zone above calls signed is no exception', async (t) => {
    const server = await serve(t, (asked) =>
      asked.type === 'DS' && asked.name === 'corp.example' ? { answers: [ds('corp.example')] } : down(asked),
    )
    const finding = await checkOne(server, 'a.corp.example', { unreachableOk })
    assert.equal(finding.result, 'failed')
    assert.deepEqual(askedFor(server, 'DS'), ['corp.example'])
  })
  test('the DS record is looked up where the zone above is served, not at the silent servers of the zone', async (t) => {
    const silent = await serve(t, () => 'drop')
    const above = await serve(t, ({ type, name }) => (type === 'DS' ? { answers: [ds(name)] } : {}))
    const dns = {
      resolvers: [above.resolver],
      zones: [{ zone: 'corp.example', resolvers: [silent.resolver] }],
      timeoutMs: 300,
    }
    assert.equal((await checkOne(above, 'a.corp.example', { unreachableOk, dns })).result, 'failed')
    assert.deepEqual(askedFor(above, 'DS'), ['corp.example'])
    assert.deepEqual(askedFor(silent, 'DS'), [])
  })
  test('an alias loop is the fault of the zone, and counts like any failure', async (t) => {
    const server = await serve(t, ({ name, type }) =>
      name === 'a.corp.example' && type === 'CAA' ? { answers: [cname(name, name)] } : {},
    )
    assert.equal((await checkOne(server, 'a.corp.example', { unreachableOk })).result, 'excepted')
  })
})

describe('zones with fixed addresses', () => {
  test('have no records, and nobody is asked', async (t) => {
    const server = await serve(t, () => 'drop')
    const dns = { resolvers: [server.resolver], zones: [{ zone: 'test', addresses: ['127.0.0.1'] }] }
    assert.equal((await checkOne(server, 'a.b.test', { dns })).result, 'permitted')
    assert.equal(server.asked.length, 0)
  })
  test('are climbed out of', async (t) => {
    const server = await serve(t, caaScript({ example: ['0 issue ";"'] }))
    const dns = {
      resolvers: [server.resolver],
      zones: [{ zone: 'host.example', addresses: ['127.0.0.1'] }],
      timeoutMs: 300,
    }
    assert.equal((await checkOne(server, 'a.host.example', { dns })).result, 'forbidden')
    assert.deepEqual(askedFor(server), ['example'])
  })
})

test('evidence holds what was found, cut to a bound', async (t) => {
  const lines = Array.from({ length: 60 }, () => `0 issue "${'x'.repeat(600)}"`)
  const server = await serve(t, caaScript({ 'host.example': lines }))
  const { evidence } = await checkOne(server, 'host.example')
  const [records] = evidence
  assert.equal(records?.step, 'caa-records')
  assert.equal(records?.['at'], 'host.example')
  assert.equal(records?.['resolver'], server.resolver)
  assert.ok(JSON.stringify(evidence).length < 10_000)
})

function responseHead(query: Buffer): Buffer {
  const head = Buffer.from(query)
  head[2]! |= 0x80
  head.writeUInt16BE(1, 6)
  head.writeUInt16BE(0, 10)
  // Without the OPT record at the end of the query.
  return head.subarray(0, head.length - 11)
}
