/** `bench scale` as users start it: instances of its own, one database for two of them, and nothing left behind. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { readProcesses } from '../../bench/measure/proc-stat.ts'
import { readDocument } from '../support/bench-document.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')

describe('bench scale', { skip: process.platform === 'linux' ? false : 'reads /proc' }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'scale-test-'))
  chmodSync(folder, 0o755)
  after(() => rmSync(folder, { recursive: true }))

  function run(...args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
    return new Promise((resolve) => {
      const options = { env: { ...process.env, TMPDIR: folder } }
      execFile(process.execPath, [MAIN, 'scale', ...args], options, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      )
    })
  }

  test('loads one instance and two on one database with real http-01, and takes them down', async () => {
    const file = path.join(folder, 'scale.json')
    const page = path.join(folder, 'scale.html')
    const short = ['--fronts', '1', '--repeat', '1', '--duration', '1', '--warmup', '0', '--clients', '4']
    const { code, stdout, stderr } = await run(...short, '--json', file, '--html', page)
    assert.equal(code, 0, stderr)
    assert.match(
      stdout,
      /^\| A: 1 front \|.*\| – \| [\w ]+, \d+ % \|\n\| B: .* of A \|.*\n\| C: 2 instances, 1 front each \|.* of B \|.*$/m,
    )

    const { scale } = readDocument(file)
    assert.deepEqual(
      scale.map(({ rounds }) => rounds.map((results) => results.length)),
      [[1], [1], [2]],
    )
    for (const { busy, fullest } of scale) {
      assert.deepEqual(Object.keys(busy).toSorted(), ['front', 'main', 'postgres', 'processors', 'signer'])
      // What takes less than 10 ms in that second may be 0.
      assert.ok(fullest && fullest.busy > 0, JSON.stringify(busy))
      assert.ok(
        Object.values(busy).every(({ median }) => median >= 0 && median < 1.1),
        JSON.stringify(busy),
      )
    }
    for (const { rounds } of scale)
      for (const result of rounds.flat()) {
        assert.ok(result.certificatesChecked > 0 && result.checksPassed)
        assert.deepEqual(result.failures, [])
      }
    const [first, second] = scale[2]?.rounds[0] ?? []
    assert.notEqual(first?.directory, second?.directory)
    assert.ok(first?.cpu?.server.signer !== undefined && second?.cpu?.server.signer !== undefined)
    assert.ok(first.cpu.server.postgres !== undefined && second.cpu.server.postgres === undefined)

    assert.deepEqual(readdirSync(folder).toSorted(), ['scale.html', 'scale.json'])
    assert.match(
      readFileSync(page, 'utf8'),
      /<h2>More front threads, more instances<\/h2>[\s\S]*2 instances, 1 front each/,
    )
    assert.deepEqual(
      readProcesses().filter(({ commandLine }) => commandLine.join(' ').includes(folder)),
      [],
    )
  })

  test('refuses what it does not know before it starts anything', async () => {
    const { code, stderr } = await run('--fronts', '0')
    assert.equal(code, 2)
    assert.match(stderr, /^--fronts 0: .*\nSee --help\.$/m)
  })
})
