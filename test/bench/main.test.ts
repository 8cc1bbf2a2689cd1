/** The command as users start it, against a server that knows nothing but a directory and nonces. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { resultsIn } from '../support/bench-document.ts'

const MAIN = fileURLToPath(new URL('../../bench/main.js', import.meta.url))

describe('the bench command', () => {
  let server: Server
  let origin: string
  const folder = mkdtempSync(join(tmpdir(), 'bench-'))
  before(async () => {
    server = createServer((request, response) => {
      const urls = { newNonce: `${origin}/${request.url === '/mute' ? 'mute-nonce' : 'nonce'}` }
      if (request.url === '/nonce') response.setHeader('Replay-Nonce', 'n')
      response.end(
        request.method === 'HEAD'
          ? ''
          : JSON.stringify({ ...urls, newAccount: `${origin}/a`, newOrder: `${origin}/o` }),
      )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  })
  after(() => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true })
  })

  test('runs scenarios in turn and writes what it printed', async () => {
    const file = join(folder, 'out.json')
    const more = [
      '--count',
      '50',
      '--clients',
      '4',
      '--processes',
      '2',
      '--scenario',
      'directory,nonce',
      '--json',
      file,
    ]
    const { code, stdout, stderr } = await bench('--directory', `${origin}/directory`, ...more)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /directory against .*\n4 clients in 2 processes/)
    assert.match(stdout, /50 succeeded, 0 failed/)

    const results = resultsIn(file)
    assert.deepEqual(
      results.map(({ scenario, succeeded, failed }) => [scenario, succeeded, failed]),
      [
        ['directory', 50, 0],
        ['nonce', 50, 0],
      ],
    )
    assert.equal(results[1]?.steps['new-nonce']?.count, 50)
    if (process.platform === 'linux')
      assert.ok(results[0]?.cpu?.server.service !== undefined, 'this process listens there')
  })

  test('measures for a time after warming up', async () => {
    const file = join(folder, 'time.json')
    const times = ['--duration', '0.3', '--warmup', '0.1']
    const { code, stderr } = await bench('--directory', `${origin}/`, '--scenario', 'nonce', ...times, '--json', file)
    assert.equal(code, 0, stderr)
    const [result] = resultsIn(file)
    assert.ok(result && result.succeeded > 10 && Math.abs(result.seconds - 0.3) < 0.01, JSON.stringify(result))
  })

  test('fails when an answer is wrong', async () => {
    const { code, stdout } = await bench(
      '--directory',
      `${origin}/mute`,
      '--scenario',
      'nonce',
      '--count',
      '3',
      '--warmup',
      '0',
    )
    assert.equal(code, 1)
    assert.match(stdout, /3 × check-nonce, such as: new-nonce answered without Replay-Nonce/)
  })

  test('fails when there is nobody to ask', async () => {
    const { code, stderr } = await bench('--directory', 'http://127.0.0.1:1/', '--scenario', 'nonce')
    assert.equal(code, 1)
    assert.match(stderr, /cannot begin with http:\/\/127\.0\.0\.1:1\/: .*ECONNREFUSED/)
  })

  test('names every wrong option and ends with 2', async () => {
    const { code, stderr } = await bench('--clients', 'x', '--timeout=-1')
    assert.equal(code, 2)
    assert.match(stderr, /--clients x: .*\n--timeout -1: /)
  })

  test('explains itself', async () => {
    const { code, stdout } = await bench('--help')
    assert.equal(code, 0)
    assert.match(stdout, /--server-pid/)
  })
})

function bench(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], { timeout: 30_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    )
  })
}
