/** `--start` as users start it: every scenario on a service of the bench, and an overload of one. */

import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { SCENARIO_NAMES } from '../../bench/scenario/table.ts'
import { readDocument, resultsIn, runBench } from '../support/bench.ts'

describe('a service that the bench starts', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'start-test-'))
  chmodSync(folder, 0o755)
  after(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'out.json')
  const START = ['--start', '--workers', '1', '--clients', '2', '--warmup', '0', '--json', file]

  test('does all scenarios', async () => {
    const { code, output } = await runBench(
      folder,
      ...START,
      '--count',
      '6',
      '--scenario',
      'all',
      '--renewal-reads',
      '1',
    )
    assert.equal(code, 0, output)
    const figures = resultsIn(file).map(({ scenario, succeeded, failed }) => [scenario, succeeded, failed])
    assert.deepEqual(
      figures,
      SCENARIO_NAMES.map((scenario) => [scenario, 6, 0]),
    )
  })

  test('takes every challenge for met, and offers no other, when that is the challenge', async () => {
    const { code, output } = await runBench(folder, ...START, '--count', '6', '--challenge', 'accept-all-01')
    assert.equal(code, 0, output)
    assert.deepEqual(
      resultsIn(file).map((result) => [result.challenge, result.certificatesChecked]),
      [['accept-all-01', 6]],
    )
    const other = await runBench(folder, ...START, '--count', '2', '--challenge', 'accept-all-02')
    assert.equal(other.code, 1)
    assert.match(other.output, /no-challenge, such as: the authorization offers no accept-all-02 challenge/)
  })

  test('is offered more than it can do, and what became of that is told', async () => {
    const short = ['--scenario', 'new-order', '--duration', '2', '--calm', '2', '--flood', '2', '--connections', '50']
    const { output } = await runBench(folder, 'overload', ...START, ...short)
    assert.match(output, /^overload of this tree .* with new-order\n {2}maximum/m)
    const [result] = readDocument(file).overload
    assert.ok(result && result.maximum.perSecond > 0 && result.flood.succeeded > 0, output)
    assert.equal(result.run.offered, result.run.succeeded + result.run.failed + result.run.refused + result.run.dropped)
  })
})
