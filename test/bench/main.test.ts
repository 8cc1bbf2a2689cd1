/** The command as users start it, against a server that knows nothing but a directory and nonces. */

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { resultsIn, runBench } from '../support/bench.ts'

describe('the bench command', () => {
  let server: Server
  let origin: string
  let halves = 0
  const folder = mkdtempSync(join(tmpdir(), 'bench-'))
  const bench = (...args: string[]) => runBench(folder, ...args)
  before(async () => {
    server = createServer((request, response) => {
      const nonces: Record<string, string> = { '/mute': 'mute-nonce', '/half': 'half-nonce' }
      const newNonce = `${origin}/${nonces[request.url ?? ''] ?? 'nonce'}`
      if (request.url === '/nonce') response.setHeader('Replay-Nonce', 'n')
      if (request.url === '/half-nonce' && halves++ % 2 === 0) response.setHeader('Replay-Nonce', 'n')
      const directory = { newNonce, newAccount: `${origin}/a`, newOrder: `${origin}/o` }
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
    const [json, html] = [join(folder, 'out.json'), join(folder, 'out.html')]
    const shape = [
      '--count',
      '50',
      '--warmup',
      '0',
      '--clients',
      '4',
      '--processes',
      '2',
      '--scenario',
      'directory,nonce',
    ]
    const { code, output } = await bench('--directory', `${origin}/directory`, ...shape, '--json', json, '--html', html)
    assert.equal(code, 0, output)
    assert.match(output, /^directory against .*\nclosed loop, 4 clients, 2 processes, 0 accounts/m)
    assert.match(output, /50 succeeded, 0 failed/)

    const results = resultsIn(json)
    const figures = results.map(({ scenario, succeeded, failed }) => [scenario, succeeded, failed])
    assert.deepEqual(figures, [
      ['directory', 50, 0],
      ['nonce', 50, 0],
    ])
    assert.equal(results[1]?.steps['new-nonce']?.count, 50)
    if (process.platform === 'linux')
      assert.ok(results[0]?.cpu?.server.service !== undefined, 'this process listens there')
    assert.match(readFileSync(html, 'utf8'), /uPlot/)
  })

  test('measures for a time after warming up, and then in an open loop', async () => {
    const file = join(folder, 'time.json')
    const times = ['--duration', '2', '--warmup', '0.1', '--rate', '50%']
    const { code, output } = await bench('--directory', `${origin}/`, '--scenario', 'nonce', ...times, '--json', file)
    assert.equal(code, 0, output)
    const [closed, open] = resultsIn(file)
    assert.ok(closed && closed.succeeded > 10 && Math.abs(closed.seconds - 2) < 0.01, JSON.stringify(closed))
    assert.ok(open && open.load.kind === 'open' && open.load.ofMaximum === 0.5)
    assert.equal(open.offered, open.succeeded + open.dropped)
  })

  test('warms up until the server is steady, and says so when it never was', async () => {
    const file = join(folder, 'steady.json')
    const { output } = await bench('--directory', `${origin}/`, '--scenario', 'nonce', '--count', '50', '--json', file)
    const warmup = resultsIn(file)[0]?.warmup ?? assert.fail(output)
    assert.ok(warmup.isSteady ? warmup.seconds >= 10 : warmup.seconds === 30, JSON.stringify(warmup))
    assert.equal(output.includes('after 30 s of warm-up'), !warmup.isSteady, output)
  })

  test('fails when an answer is wrong, or a part of them', async () => {
    const few = ['--scenario', 'nonce', '--count', '4', '--warmup', '0', '--clients', '1']
    const mute = await bench('--directory', `${origin}/mute`, ...few)
    assert.equal(mute.code, 1)
    assert.match(mute.output, /4 × check-nonce, such as: new-nonce answered without Replay-Nonce/)
    const half = await bench('--directory', `${origin}/half`, ...few)
    assert.equal(half.code, 1)
    assert.match(half.output, /2 succeeded, 2 failed/)
  })

  test('fails when one of several servers broke', async () => {
    const once = ['--scenario', 'nonce', '--count', '4', '--warmup', '0', '--repeat', '1']
    const { code, output } = await bench('--directory', `${origin}/`, ...once, '--against', 'http://127.0.0.1:1/')
    assert.equal(code, 1)
    assert.match(output, /B: broken in 1 of 1 rounds/)
  })

  test('fails when there is nobody to ask', async () => {
    const { code, output } = await bench('--directory', 'http://127.0.0.1:1/', '--scenario', 'nonce')
    assert.equal(code, 1)
    assert.match(output, /cannot begin with http:\/\/127\.0\.0\.1:1\/: .*ECONNREFUSED/)
  })

  test('names every wrong option, and files that cannot be written, and ends with 2', async () => {
    const { code, output } = await bench('--clients', 'x', '--timeout=-1', '--html', '/nope/x.html')
    assert.equal(code, 2)
    assert.match(output, /--clients x: .*\n--timeout -1: .*\n--html \/nope\/x\.html: ENOENT/)
  })

  test('refuses words that are no command', async () => {
    const wrong: [string[], RegExp][] = [
      [['overlaod', '--clients', '2'], /^bench: unknown command: overlaod; did you mean overload\?/],
      [['--clients', '2', 'overload'], /^bench: one word too many: overload; see /],
    ]
    for (const [args, message] of wrong) {
      const { code, output } = await bench(...args)
      assert.equal(code, 2, args.join(' '))
      assert.match(output, message)
    }
  })

  test('explains itself', async () => {
    for (const args of [[], ['overload']]) {
      const { code, output } = await bench(...args, '--help')
      assert.equal(code, 0)
      assert.match(output, /--server-pid/)
    }
  })
})
