/** `--start` as users start it: what the service of the bench offers for the scenario. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { resultsIn } from '../support/bench-document.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')

describe('a service that the bench starts', { timeout: 600_000 }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'start-test-'))
  chmodSync(folder, 0o755)
  after(() => rmSync(folder, { recursive: true }))

  function start(count: number, ...args: string[]): Promise<{ code: number | null; output: string }> {
    const file = path.join(folder, 'out.json')
    const short = ['--start', '--workers', '1', '--clients', '2', '--warmup', '0', '--json', file]
    return new Promise((resolve) => {
      const options = { env: { ...process.env, TMPDIR: folder }, timeout: 280_000 }
      const child = execFile(
        process.execPath,
        [MAIN, ...short, '--count', `${count}`, ...args],
        options,
        (_, stdout, stderr) => resolve({ code: child.exitCode, output: stdout + stderr }),
      )
    })
  }
  const succeeded = () =>
    resultsIn(path.join(folder, 'out.json')).map((result) => [result.scenario, result.succeeded, result.failed])

  test('has a CRL when the scenario reads it', async () => {
    const { code, output } = await start(6, '--scenario', 'crl')
    assert.equal(code, 0, output)
    assert.deepEqual(succeeded(), [['crl', 6, 0]])
  })

  test('is read by an administrator, too, while clients renew', async () => {
    const { code, output } = await start(110, '--scenario', 'renewal', '--renewal-reads', '1')
    assert.equal(code, 0, output)
    const [{ steps } = assert.fail('no result')] = resultsIn(path.join(folder, 'out.json'))
    assert.equal(steps['crl']?.count, 110)
    // One of the two accounts comes to its fiftieth renewal whatever the other does.
    for (const read of ['metrics', 'certificate-list']) assert.ok((steps[read]?.count ?? 0) >= 1, read)
    assert.match(output, /^ {2}metrics .*\n {2}certificate-list /m)
  })

  test('does all it can, and the rest is named in one line', async () => {
    const { code, output } = await start(6, '--scenario', 'all', '--renewal-reads', '1')
    assert.equal(code, 0, output)
    assert.match(
      output,
      /^left out of "all": validation-storm \(only by name\), crl \(the certificates name no CRL;.*\)$/m,
    )
    assert.equal(succeeded().length, 10)
  })
})
