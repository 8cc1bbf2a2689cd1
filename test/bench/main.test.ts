/** The command as users start it, against a server that knows nothing but a directory and nonces. */

import assert from 'node:assert/strict'
import { chmodSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { leftIn, readDocument, resultsIn, runBench, startBench } from '../support/bench.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe('the bench command', () => {
  let server: Server
  let origin: string
  let halves = 0
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
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
  })

  test('runs scenarios in turn and writes what it printed', async () => {
    const [json, html] = [join(folder, 'out.json'), join(folder, 'out.html')]
    const shape = ['--count', '50', '--warmup', '0', '--clients', '4', '--processes', '2']
    const words = [...shape, '--scenario', 'directory,nonce', '--json', json, '--html', html]
    const { code, output } = await bench('--directory', `${origin}/directory`, ...words)
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

  test('fails when an answer is wrong, or a part of them, or one of several servers broke', async () => {
    const few = ['--scenario', 'nonce', '--count', '4', '--warmup', '0', '--clients', '1', '--repeat', '1']
    for (const [words, what] of [
      [['/mute'], /4 × check-nonce, such as: new-nonce answered without Replay-Nonce/],
      [['/half'], /2 succeeded, 2 failed/],
      [['/', '--against', 'http://127.0.0.1:1/'], /B: broken in 1 of 1 rounds/],
    ] as const) {
      const [path, ...more] = words
      const { code, output } = await bench('--directory', `${origin}${path}`, ...few, ...more)
      assert.equal(code, 1)
      assert.match(output, what)
    }
  })

  test('names every wrong option, and files that cannot be written, and ends with 2', async () => {
    const { code, output } = await bench('--clients', 'x', '--timeout=-1', '--html', '/nope/x.html')
    assert.equal(code, 2)
    assert.match(output, /--clients x: .*\n--timeout -1: .*\n--html \/nope\/x\.html: ENOENT/)
  })

  test('a signal while a service that accepts every proof is measured: the result until then, and nothing is left', async () => {
    const file = join(folder, 'interrupted.json')
    const words = ['--start', '--workers', '1', '--challenge', 'accept-all-01', '--clients', '2']
    const run = startBench(folder, ...words, '--duration', '600', '--warmup', '0', '--json', file)
    await run.wrote(/full-flow: measuring [1-9]/)
    process.kill(-(run.child.pid as number), 'SIGTERM')
    const { code, output } = await run.done
    assert.equal(code, 143, output)
    assert.match(output, /succeeded, 0 failed[\s\S]*\ninterrupted by SIGTERM: /)
    assert.equal(readDocument(file).interruptedBy, 'SIGTERM')
    const [result] = resultsIn(file)
    assert.ok(result && result.succeeded > 0 && result.seconds < 600)
    assert.equal(result.challenge, 'accept-all-01')
    assert.equal(result.certificatesChecked, result.succeeded)
    if (process.platform === 'linux') assert.deepEqual(leftIn(folder), [])
  })

  test('a signal in the second round of the table leaves the first, with every row, and nothing else', async () => {
    const file = join(folder, 'figures.json')
    const words = ['--start', '--workers', '1', '--scenario', 'table', '--repeat', '2', '--clients', '2']
    const run = startBench(folder, ...words, '--duration', '1', '--warmup', '0', '--figures', file)
    await run.wrote(/round 2 of 2, A, full-flow: measuring/)
    process.kill(-(run.child.pid as number), 'SIGTERM')
    const { code, output } = await run.done
    assert.equal(code, 143, output)
    assert.match(output, /^certificate with http-01, in the first 1 s/m)
    const { interruptedBy, measurements, table } = readDocument(file)
    assert.deepEqual([interruptedBy, measurements, table?.rounds, table?.rows.length], ['SIGTERM', [], 1, 6])
    for (const { name, figures } of table?.rows ?? []) assert.ok(figures.perSecond?.servers[0], name)
    if (process.platform === 'linux') assert.deepEqual(leftIn(folder), [])
  })
})
