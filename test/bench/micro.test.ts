/** `bench micro` as users start it. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { readDocument } from '../support/bench-document.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')

describe('the micro-benchmarks', { skip: process.platform === 'linux' ? false : 'reads /proc' }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'micro-test-'))
  chmodSync(folder, 0o755)
  after(() => rmSync(folder, { recursive: true }))

  function run(...args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
    return new Promise((resolve) => {
      const options = { env: { ...process.env, TMPDIR: folder } }
      execFile(process.execPath, [MAIN, 'micro', ...args], options, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      )
    })
  }

  test('measure what is named, and compare it with an earlier result', async () => {
    const file = path.join(folder, 'micro.json')
    const page = path.join(folder, 'micro.html')
    const quick = ['--milliseconds', '20', '--rows', '100', '--batches', '1,10']
    const first = await run(
      ...quick,
      '--json',
      file,
      '--html',
      page,
      'jws-verify',
      'batcher',
      'signer-round-trip',
      'order-create',
    )
    assert.equal(first.code, 0, first.stderr)
    const { format, command, machine, micro } = readDocument(file)
    assert.deepEqual([format, command[0]], ['chancery-bench', 'micro'])
    assert.ok(machine.processors > 0 && micro)
    const { floor, results } = micro
    assert.deepEqual(
      results.map(({ name, batch }) => [name, batch]),
      [
        ['jws-verify', undefined],
        ['batcher', 64],
        ['signer-round-trip', 1],
        ['signer-round-trip', 16],
        ['order-create', 1],
        ['order-create', 10],
      ],
    )
    assert.ok(results.every(({ own, operations }) => own > 0 && operations > 0))
    assert.ok(floor.jwsVerification > 0)

    const second = await run(...quick, '--baseline', file, 'jws-verify')
    assert.match(second.stdout, /^jws-verify +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+$/m)
    assert.deepEqual(readdirSync(folder).toSorted(), ['micro.html', 'micro.json'])
    assert.match(readFileSync(page, 'utf8'), /<h2>The parts one by one<\/h2>[\s\S]*jws-verify/)
  })

  test('take in every statement, in batches where the store has them', async () => {
    const file = path.join(folder, 'statements.json')
    const batched = ['account-find', 'nonce-redeem', 'rate-limit-charge', 'attempt-unclaimed', 'renewal-find']
    const claimed = ['claim-trigger', 'claim-attempt']
    const settings = ['--rows', '100', '--batches', '2,4', '--json', file]
    const { code, stderr } = await run(...settings, 'account-orders', ...batched, ...claimed)
    assert.equal(code, 0, stderr)
    const found = readDocument(file).micro?.results.map(({ name, batch, operations }) => [name, batch, operations])
    assert.deepEqual(found, [
      ...[...batched, ...claimed].map((name) => [name, 2, 100]),
      ['account-orders', undefined, 100],
      ...[...batched, ...claimed].map((name) => [name, 4, 100]),
    ])
    rmSync(file)
  })

  test('refuse what they do not know', async () => {
    const { code, stderr } = await run('--rows', '1', 'nonsense')
    assert.equal(code, 2)
    assert.match(stderr, /^nonsense: not one of .*\n--rows 1: .*\nSee --help\.$/m)
  })
})
