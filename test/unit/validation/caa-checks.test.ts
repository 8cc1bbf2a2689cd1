/** CAA checks from the configuration, and the supervisor's bound on them. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { pino } from 'pino'
import type { Config } from '../../../src/config/schema.ts'
import { MAX_RECORD_LENGTH } from '../../../src/domain/validation-attempt.ts'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { urlSettings } from '../../../src/settings/server-settings.ts'
import { caaSettings } from '../../../src/settings/validation-settings.ts'
import { Urls } from '../../../src/shared/protocol/urls.ts'
import { createCaaChecks, createCaaJobFactory } from '../../../src/validation/dns-checks.ts'
import type { CaaFinding, CaaJob } from '../../../workers/job.ts'
import { WorkerPoolError } from '../../../workers/job.ts'
import { aConfig } from '../config/support.ts'

const SUBJECTS = [{ name: 'a.example', wildcard: false, method: 'http-01' }]
const REQUEST = { accountId: 'account', orderId: 'order', subjects: SUBJECTS }
const NAMED = { acme: { caa_identities: ['CA.example', 'ca2.example.'] } }

const factoryOf = (config: Config) => createCaaJobFactory(caaSettings(config), new Urls(urlSettings(config)))

describe('the job of a CAA check', () => {
  test('there is none without a name, nor where the check is off', () => {
    assert.equal(factoryOf(aConfig()), undefined)
    assert.equal(factoryOf(aConfig({ acme: { caa_identities: ['ca.example'], caa_enforce: false } })), undefined)
  })
  test('an account of a former server has the URL that its client knows', () => {
    const account = { accountId: 'account', accountPath: '/old/acct/7' }
    assert.equal(factoryOf(aConfig(NAMED))?.(account, SUBJECTS).accountUri, 'https://acme.example.com/old/acct/7')
  })
  test('it has names as they are compared, the URL of the account, and two questions of time', () => {
    const factory = factoryOf(
      aConfig({
        acme: { ...NAMED.acme, caa_unreachable_ok: ['Corp.Example', 'internal'] },
        dns: { timeout_seconds: 3, retries: 0 },
      }),
    )
    assert.deepEqual(factory?.({ accountId: 'account' }, SUBJECTS), {
      subjects: SUBJECTS,
      identities: ['ca.example', 'ca2.example'],
      unreachableOk: ['corp.example', 'internal'],
      accountUri: 'https://acme.example.com/acct/account',
      timeoutMs: 6000,
      // A failure counts after a repeat (BR 3.2.2.8), whatever the setting.
      dns: { resolvers: [], zones: [], timeoutMs: 3000, retries: 1 },
    })
  })
})

describe('checks for finalize', () => {
  function checksWith(checkCaa: (job: CaaJob) => Promise<CaaFinding[]>) {
    const metrics = createMetrics()
    const lines: Record<string, unknown>[] = []
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
    const time = { now: 0 }
    const onResult = (result: string) => metrics.caaChecks.inc({ result })
    const options = { jobFor: factoryOf(aConfig(NAMED)), checkCaa, onResult, log }
    return { check: createCaaChecks(options, () => time.now), metrics, lines, time }
  }

  test('findings go back, to the metric and to the log, which alone wants the evidence', async () => {
    const findings: CaaFinding[] = [{ result: 'forbidden', detail: 'no', evidence: [{ step: 'caa' }] }]
    const { check, metrics, lines } = checksWith(async () => findings)
    assert.deepEqual(await check(REQUEST), [{ result: 'forbidden', detail: 'no', evidence: [] }])
    const { values } = await metrics.caaChecks.get()
    const found = values.map(({ labels, value }) => [labels.result, value])
    assert.deepEqual(found, [['forbidden', 1]])
    assert.equal(lines[0]?.['event'], 'caa_check')
    assert.equal(lines[0]?.['orderId'], 'order')
    assert.deepEqual(lines[0]?.['evidence'], [{ step: 'caa' }])
  })
  test('the line of the log is as long as a record of a validation at most, whatever the records hold', async () => {
    const records = Array.from({ length: 20 }, () => ({ critical: false, tag: 'issue', value: 'x'.repeat(256) }))
    const evidence = Array.from({ length: 200 }, (_, i) => ({ step: 'caa-records', name: `n${i}.example`, records }))
    const { check, lines } = checksWith(async () => [{ result: 'forbidden', detail: 'no', evidence }])
    await check(REQUEST)
    const { evidence: steps, omitted } = lines[0] as { evidence: { name: string }[]; omitted: number }
    assert.ok(JSON.stringify(lines[0]).length <= MAX_RECORD_LENGTH, `${JSON.stringify(lines[0]).length}`)
    assert.deepEqual([steps[0]?.name, steps.at(-1)?.name, steps.length + omitted], ['n0.example', 'n199.example', 200])
  })
  test('what was refused three times in a minute is refused without a look for the rest of it', async () => {
    for (const result of ['forbidden', 'failed'] as const) {
      let looks = 0
      let finding: CaaFinding = { result, detail: 'no', evidence: [] }
      const { check, time, lines } = checksWith(async () => {
        looks++
        return [finding]
      })
      for (let i = 0; i < 1000; i++) assert.deepEqual(await check(REQUEST), [finding])
      assert.deepEqual([looks, lines.length], [3, 3])
      await check({ ...REQUEST, accountId: 'another' })
      await check({ ...REQUEST, subjects: [{ name: 'b.example', wildcard: false }] })
      assert.equal(looks, 5)
      finding = { result: 'permitted', evidence: [] }
      time.now = 60_000
      for (let i = 0; i < 5; i++) assert.deepEqual(await check(REQUEST), [finding])
      assert.equal(looks, 10)
    }
  })
  test('at most 24 run at once, and 6 of one account; further ones are refused until one ends', async () => {
    const waiting: (() => void)[] = []
    const { check } = checksWith(() => new Promise((resolve) => waiting.push(() => resolve([]))))
    const of = (accountId: string) => check({ ...REQUEST, accountId })
    const first = Array.from({ length: 6 }, () => of('one'))
    assert.equal(await of('one'), undefined)
    const others = ['two', 'three', 'four'].flatMap((name) => Array.from({ length: 6 }, () => of(name)))
    assert.equal(await of('five'), undefined)
    assert.equal(waiting.length, 24)
    for (const answer of waiting.splice(0)) answer()
    await Promise.all([...first, ...others])
    const next = of('one')
    waiting[0]?.()
    assert.deepEqual(await next, [])
  })
  test('workers without a verdict are no verdict; a fault of ours is a fault', async () => {
    const lost = checksWith(async () => {
      throw new WorkerPoolError('lost', 'gone')
    })
    for (let i = 0; i < 30; i++) assert.equal(await lost.check(REQUEST), undefined)
    const broken = checksWith(async () => {
      throw new TypeError('a fault')
    })
    await assert.rejects(broken.check(REQUEST), TypeError)
  })
})
