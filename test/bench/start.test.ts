/** A service that the bench starts: every scenario, every method that the bench answers itself, and an overload. */

import assert from 'node:assert/strict'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Options, parseOptions } from '../../bench/options.ts'
import { runScenario } from '../../bench/run.ts'
import { ANSWERED_TYPES } from '../../bench/scenario/issue.ts'
import { SCENARIO_NAMES, type ScenarioName } from '../../bench/scenario/table.ts'
import { ownBuild } from '../../bench/servers/build.ts'
import { type Contestant, startBuild } from '../../bench/servers/chancery.ts'
import { readDocument, runBench } from '../support/bench.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const interrupt = new AbortController().signal
const AROUND = { progress: { begin: () => undefined, end: () => undefined }, interrupt }

describe('a service that the bench starts', () => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  let server: Contestant
  before(async () => {
    // The scenarios and the challenge of a plan decide what the service is started with.
    const plan = parseOptions({ start: true, workers: 1, challenge: 'dns-01', scenario: 'all', warmup: 0, clients: 2 })
    server = await startBuild(await ownBuild(interrupt), path.join(folder, 'data'), plan, interrupt)
  })
  after(async () => {
    await server?.stop()
  })

  async function run(scenario: ScenarioName, more: Partial<Options> = {}) {
    const options = { ...server.options, challengeType: 'http-01', count: 6, renewalReads: 3, ...more }
    const [result] = await runScenario(options, scenario, AROUND)
    return result ?? assert.fail('no result')
  }

  for (const scenario of SCENARIO_NAMES)
    test(`does the scenario ${scenario}`, async () => {
      const { succeeded, failures } = await run(scenario)
      assert.deepEqual([succeeded, failures], [6, []])
    })

  // RFC 9773 §5, RFC 8555 §7.3.5.
  test('renewals replace certificates, and accounts change their keys now and then', async () => {
    // One account, since several share the renewals as they come.
    const { succeeded, certificatesChecked, steps, failures } = await run('renewal', {
      clients: 1,
      accounts: 1,
      count: 100,
    })
    assert.deepEqual([succeeded, certificatesChecked, failures], [100, 101, []])
    const counts = ['renewal-info', 'key-change', 'crl'].map((step) => steps[step]?.count)
    assert.deepEqual(counts, [300, 2, 100])
  })

  for (const type of ANSWERED_TYPES)
    test(`gives certificates through ${type}`, async () => {
      const { failures, succeeded, certificatesChecked } = await run('full-flow', { challengeType: type })
      assert.deepEqual([failures, succeeded, certificatesChecked], [[], 6, 6])
    })

  test('a proof that is not there is a failure of the challenge', async () => {
    const responders = { ...server.options.responders, dnsPort: 0 }
    const without = { challengeType: 'dns-01', responders, timeoutMs: 2000, count: 1 }
    const { succeeded, failures } = await run('full-flow', without)
    assert.equal(succeeded, 0)
    assert.match(failures[0]?.kind ?? '', /^(challenge-dns|timeout)$/)
  })

  test('is offered more than it can do, and what became of that is told', async () => {
    const [file, root] = [path.join(folder, 'out.json'), path.join(folder, 'root.pem')]
    writeFileSync(root, server.options.rootCertificate ?? '')
    const place = ['--directory', server.options.directoryUrl, '--ca-cert', root, '--clients', '2', '--warmup', '0']
    const short = ['--scenario', 'new-order', '--duration', '2', '--calm', '2', '--flood', '2', '--connections', '50']
    const { output } = await runBench(folder, 'overload', ...place, ...short, '--json', file)
    assert.match(output, /^overload of .* with new-order\n {2}maximum/m)
    const [result] = readDocument(file).overload
    assert.ok(result && result.maximum.perSecond > 0 && result.flood.succeeded > 0, output)
    assert.equal(result.run.offered, result.run.succeeded + result.run.failed + result.run.refused + result.run.dropped)
  })
})
