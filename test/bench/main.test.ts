/** The command as users start it, against a server that knows nothing but a directory and nonces. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
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
  let halves = 0
  let changes = 0
  const folder = mkdtempSync(join(tmpdir(), 'bench-'))
  before(async () => {
    server = createServer((request, response) => {
      const nonces: Record<string, string> = { '/mute': 'mute-nonce', '/half': 'half-nonce' }
      const urls = { newNonce: `${origin}/${nonces[request.url ?? ''] ?? 'nonce'}` }
      if (request.url === '/nonce') response.setHeader('Replay-Nonce', 'n')
      if (request.url === '/half-nonce' && halves++ % 2 === 0) response.setHeader('Replay-Nonce', 'n')
      const isWhole = request.url !== '/changing' || changes++ % 2 === 0
      const directory = { ...urls, newAccount: `${origin}/a`, ...(isWhole && { newOrder: `${origin}/o` }) }
      response.end(request.method === 'HEAD' ? '' : JSON.stringify(directory))
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
    const times = ['--duration', '2', '--warmup', '0.1']
    const { code, stderr } = await bench('--directory', `${origin}/`, '--scenario', 'nonce', ...times, '--json', file)
    assert.equal(code, 0, stderr)
    const [result] = resultsIn(file)
    assert.ok(result && result.succeeded > 10 && Math.abs(result.seconds - 2) < 0.01, JSON.stringify(result))
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

  test('fails when a part of the operations fails', async () => {
    const once = ['--scenario', 'nonce', '--count', '4', '--warmup', '0', '--clients', '1']
    const { code, stdout } = await bench('--directory', `${origin}/half`, ...once)
    assert.equal(code, 1)
    assert.match(stdout, /2 succeeded, 2 failed/)
  })

  test('notices when a directory that was right is wrong', async () => {
    const once = ['--scenario', 'directory', '--count', '4', '--warmup', '0', '--clients', '1']
    const { code, stdout } = await bench('--directory', `${origin}/changing`, ...once)
    assert.equal(code, 1)
    assert.match(stdout, /2 succeeded, 2 failed/)
    assert.match(stdout, /2 × check-directory, such as: the directory has no newOrder/)
  })

  test('fails when one of several servers broke', async () => {
    const once = ['--scenario', 'nonce', '--count', '4', '--warmup', '0', '--repeat', '1']
    const { code, stdout } = await bench('--directory', `${origin}/`, ...once, '--against', 'http://127.0.0.1:1/')
    assert.equal(code, 1)
    assert.match(stdout, /B: broken in 1 of 1 rounds/)
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

  test('tries output files before it starts, and leaves nothing there', async () => {
    const inFolder = join(folder, 'tried.json')
    const files = ['--html', '/nope/x.html', '--accounts-file', '/proc/nope/a', '--json', inFolder]
    const { code, stderr } = await bench('--directory', 'http://127.0.0.1:1/', ...files)
    assert.equal(code, 2)
    assert.match(stderr, /^--accounts-file \/proc\/nope\/a: ENOENT.*\n--html \/nope\/x\.html: ENOENT/)
    assert.ok(!existsSync(inFolder))
    for (const command of [[], ['overload'], ['abuse'], ['scale'], ['profile'], ['micro'], ['signer']]) {
      const { code, stderr } = await bench(...command, '--json', '/')
      assert.deepEqual([code, stderr.split('\n')[0]], [2, '--json /: is a directory'], command[0])
    }
  })

  test('keeps what it printed when a file cannot be written in the end', {
    skip: !existsSync('/dev/full'),
  }, async () => {
    const html = join(folder, 'kept.html')
    const once = ['--directory', `${origin}/`, '--scenario', 'nonce', '--count', '3', '--warmup', '0']
    const { code, stdout, stderr } = await bench(...once, '--json', '/dev/full', '--html', html)
    assert.equal(code, 1)
    assert.match(stdout, /3 succeeded, 0 failed/)
    assert.match(stderr, /--json \/dev\/full: not written: ENOSPC/)
    assert.ok(existsSync(html))
  })

  test('refuses words that are no command, and no measured time', async () => {
    const wrong: [string[], RegExp][] = [
      [['overlaod', '--clients', '2'], /^overlaod: no such command; overload\?\n/],
      [['--clients', '2', 'overload'], /^overload: name the command before its options\n/],
      [['abuse', 'slowloris'], /^slowloris: abuse takes no words\n/],
      [['--clients', '-3'], /^--clients -3: must be a whole number from 1 to \d+\n/],
      [['--duration', '0'], /^--duration 0: must be a number from 0\.001 to \d+\n/],
    ]
    for (const [args, message] of wrong) {
      const { code, stderr } = await bench(...args)
      assert.equal(code, 2, args.join(' '))
      assert.match(stderr, message)
    }
  })

  test('explains itself', async () => {
    const { code, stdout } = await bench('--help')
    assert.equal(code, 0)
    assert.match(stdout, /--server-pid/)
  })
})

function bench(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], { timeout: 120_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    )
  })
}
