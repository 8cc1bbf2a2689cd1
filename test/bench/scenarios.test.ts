/** Scenarios around certificates that are there, against a whole service. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { parseOptions } from '../../bench/options.ts'
import { runScenario } from '../../bench/run.ts'
import type { ScenarioName } from '../../bench/scenario/table.ts'
import { startTestService, type TestService } from '../support/service.ts'

const PROGRESS = { begin: () => undefined, end: () => undefined }
const AROUND = { progress: PROGRESS, interrupt: new AbortController().signal }

describe('scenarios of certificates that are there', () => {
  let service: TestService
  before(async () => {
    service = await startTestService({ fronts: 1, config: { crl: { enabled: true }, ari: { enabled: true } } })
  })
  after(() => service.dispose())

  async function run(scenario: ScenarioName, flags: Record<string, unknown> = {}) {
    const place = { directory: service.directoryUrl, 'http01-port': service.http01Port, root: service.ca.root }
    const size = { warmup: 0, clients: 2, count: 6, 'renewal-reads': 3 }
    const [result] = await runScenario(parseOptions({ ...place, ...size, ...flags }).options, scenario, AROUND)
    return result ?? assert.fail('no result')
  }

  for (const scenario of ['renewal-info', 'certificate', 'crl', 'account-orders'] as const)
    test(`${scenario} reads what is right`, async () => {
      const { succeeded, failures } = await run(scenario)
      assert.deepEqual([succeeded, failures], [6, []])
    })

  // RFC 9773 §5, RFC 8555 §7.3.5.
  test('renewals replace certificates, and accounts change their keys now and then', async () => {
    // One account, since several share the renewals as they come.
    const { succeeded, certificatesChecked, steps, failures } = await run('renewal', { clients: 1, count: 100 })
    assert.deepEqual([succeeded, certificatesChecked, failures], [100, 101, []])
    const counts = ['renewal-info', 'key-change', 'crl'].map((step) => steps[step]?.count)
    assert.deepEqual(counts, [300, 2, 100])
  })

  test('what a service does not offer is an error that says so', async () => {
    const without = await startTestService({ fronts: 1, config: { ari: { enabled: true } } })
    const place = { directory: without.directoryUrl, 'http01-port': without.http01Port, root: without.ca.root }
    try {
      assert.equal((await run('renewal', place)).steps['crl'], undefined)
      await assert.rejects(run('crl', place), /the certificates name no CRL/)
    } finally {
      await without.dispose()
    }
  })
})
