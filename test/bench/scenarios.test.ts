/** Scenarios around certificates that are there, against a whole service. */

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseOptions } from '../../bench/options/options.ts'
import { runScenario } from '../../bench/run.ts'
import { Unsupported } from '../../bench/scenario/scenario.ts'
import type { ScenarioName } from '../../bench/scenario/table.ts'
import { startTestService, type TestService } from '../support/service.ts'

const NOBODY = { begin: () => undefined, end: () => undefined }

describe('scenarios of certificates that are there', { timeout: 600_000 }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'scenarios-test-'))
  const never = Object.assign(new AbortController().signal, { again: new AbortController().signal })
  let service: TestService
  before(async () => {
    service = await startTestService({ config: { crl: { enabled: true }, ari: { enabled: true } } })
  })
  after(async () => {
    await service.dispose()
    rmSync(folder, { recursive: true })
  })

  async function run(scenario: ScenarioName, flags: Record<string, unknown> = {}) {
    const options = parseOptions({
      ...{ directory: service.directoryUrl, 'http01-port': service.http01Port, root: service.ca.root },
      ...{ warmup: 0, clients: 2, count: 6, 'renewal-reads': 3, ...flags },
    })
    const result = await runScenario(options, scenario, NOBODY, never)
    assert.deepEqual(result.failures, [])
    return result
  }

  for (const scenario of ['renewal-info', 'certificate', 'crl', 'account-orders'] as const) {
    test(`${scenario} reads what is right`, async () => {
      assert.equal((await run(scenario)).succeeded, 6)
    })
  }

  // RFC 9773 §5, RFC 8555 §7.3.5.
  test('renewals replace certificates, and accounts change their keys now and then', async () => {
    // One account, since several share the renewals as they come.
    const { succeeded, certificatesChecked, steps } = await run('renewal', { clients: 1, count: 100 })
    assert.equal(succeeded, 100)
    assert.equal(certificatesChecked, 101)
    assert.equal(steps['renewal-info']?.count, 300)
    assert.equal(steps['key-change']?.count, 2)
    assert.equal(steps['crl']?.count, 100)
  })

  test('renewals read the CRL as often as they are told', async () => {
    for (const reads of [0, 3]) {
      const { steps } = await run('renewal', { 'crl-reads': reads })
      assert.equal(steps['crl']?.count ?? 0, 6 * reads)
    }
  })

  test('renewals without a CRL are an error only where its reads were asked for', async () => {
    const without = await startTestService({ config: { ari: { enabled: true } } })
    const place = { directory: without.directoryUrl, 'http01-port': without.http01Port, root: without.ca.root }
    try {
      assert.equal((await run('renewal', place)).steps['crl'], undefined)
      await assert.rejects(run('renewal', { ...place, 'crl-reads': 1 }), Unsupported)
    } finally {
      await without.dispose()
    }
  })

  test('held challenges are valid in the end', async () => {
    const { succeeded } = await run('validation-storm', { storm: 60, count: 20 })
    assert.equal(succeeded, 20)
  })

  test('a storm needs targets that can be held', async () => {
    await assert.rejects(run('validation-storm', { 'http01-port': 0 }), Unsupported)
  })

  test('accounts of a file are used again, and missing ones added to it', async () => {
    const file = path.join(folder, 'accounts')
    const lines = () => readFileSync(file, 'utf8').trim().split('\n')
    await run('new-order', { accounts: 3, 'accounts-file': file })
    const first = lines()
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.equal(first.length, 1 + 3)
    await run('new-order', { accounts: 5, 'accounts-file': file, processes: 2 })
    assert.equal(lines().length, 1 + 5)
    const second = new Set(lines())
    assert.ok(first.every((line) => second.has(line)))
    await run('full-flow', { accounts: 5, 'accounts-file': file, signing: 'openssl' })
    assert.equal(lines().length, 1 + 5)
  })
})
