/** `--compare` as users start it: this tree against its own last commit, each a whole service. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { leftIn, readDocument, resultsIn, startBench } from '../support/bench.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')

describe('the comparison of two builds', () => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)

  const nothingIsLeft = () => {
    if (process.platform === 'linux') assert.deepEqual(leftIn(folder), [])
    assert.doesNotMatch(execFileSync('git', ['worktree', 'list'], { cwd: ROOT, encoding: 'utf8' }), /compare-test-/)
  }

  test('loads both in turn, tells the ratios and leaves nothing behind', async () => {
    const file = path.join(folder, 'comparison.json')
    const short = ['--repeat', '1', '--count', '100', '--warmup', '0', '--clients', '4', '--workers', '1']
    const { code, output } = await startBench(folder, '--compare', 'HEAD', ...short, '--json', file).done
    assert.equal(code, 0, output)
    const subject = execFileSync('git', ['log', '-1', '--format=%s'], { cwd: ROOT, encoding: 'utf8' }).trim()
    const [, own, other] =
      /^A {2}this tree \([0-9a-f]{7}.*?\): (.*)\nB {2}HEAD \([0-9a-f]{7}\): (.*)$/m.exec(output) ?? []
    assert.deepEqual([own, other], [subject, subject], output)
    assert.match(output, /to judge a series of steps, name the\ncommit before its first step with --compare/)
    assert.match(output, /round 1 of 1, A, full-flow: measuring[\s\S]*round 1 of 1, B, full-flow: measuring/)

    const [a, b] = resultsIn(file)
    assert.ok(a && b && a.certificatesChecked > 0 && b.certificatesChecked > 0)
    assert.notEqual(a.directory, b.directory)
    const { figures } = readDocument(file).measurements[0] ?? {}
    if (process.platform === 'linux')
      assert.ok(figures?.postgresFloors && figures.serviceMicros && figures.serverFloors)
    assert.equal(figures?.perSecond?.ratios[1]?.median, b.perSecond / a.perSecond)
    nothingIsLeft()
  })

  for (const doing of ['building', 'starting servers']) {
    test(`takes everything down when it is interrupted while ${doing}`, async () => {
      const run = startBench(folder, '--compare', 'HEAD', '--workers', '1')
      await run.wrote(new RegExp(doing))
      run.child.kill('SIGINT')
      const { code, output } = await run.done
      assert.equal(code, 130, output)
      assert.match(output, /\ninterrupted by SIGINT: /)
      nothingIsLeft()
    })
  }

  test('names a ref that does not exist and ends with 2', async () => {
    for (const ref of ['no-such-ref', '12e4567']) {
      const { code, output } = await startBench(folder, '--compare', ref).done
      assert.equal(code, 2)
      assert.ok(output.includes(`--compare ${ref}: no such commit, branch or tag`), output)
    }
    nothingIsLeft()
  })
})
