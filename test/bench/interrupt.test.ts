/** How the bench ends when it does not come to its end: signals, killed generators, a killed bench. */

import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { familyOf } from '../../bench/measure/server-cpu.ts'
import { type BenchRun, leftIn, readDocument, resultsIn, startBench } from '../support/bench.ts'
import { until } from '../support/until.ts'

/** None of the runs comes to its end within the test. */
const ENDLESS = ['--scenario', 'nonce', '--clients', '2', '--duration', '60']
/** Longer than one Ctrl-C takes to arrive by two ways. */
const ANOTHER_MS = 600

describe('the end of the bench', {
  skip: process.platform === 'linux' ? false : 'reads /proc',
}, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'end-test-'))
  chmodSync(folder, 0o755)
  let server: Server
  let origin: string
  before(async () => {
    server = createServer((request, response) => {
      // One path of each kind is never answered.
      if (request.url?.endsWith('never')) return
      const newNonce = `${origin}${request.url === '/mute' ? '/nonce-never' : '/nonce'}`
      response.setHeader('Replay-Nonce', 'n')
      response.end(request.method === 'HEAD' ? '' : JSON.stringify({ newNonce, newAccount: origin, newOrder: origin }))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  })
  after(() => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true })
  })

  const signalGroup = ({ child }: BenchRun, signal: NodeJS.Signals = 'SIGINT') =>
    process.kill(-(child.pid as number), signal)

  test('a signal to the process group while measuring: the result until then, marked, and 128 and its number', async () => {
    const ends = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const
    const signals = Object.entries(ends) as [keyof typeof ends, number][]
    await Promise.all(
      signals.map(async ([signal, exitCode]) => {
        const file = path.join(folder, `${signal}.json`)
        const run = startBench(folder, '--directory', `${origin}/`, ...ENDLESS, '--warmup', '0', '--json', file)
        await run.wrote(/nonce: measuring [1-9]/)
        signalGroup(run, signal)
        const { code, output } = await run.done
        assert.equal(code, exitCode, output)
        assert.match(output, new RegExp(`succeeded, 0 failed[^]*\\ninterrupted by ${signal}: `))
        assert.equal(readDocument(file).interruptedBy, signal)
        const [result] = resultsIn(file)
        assert.ok(result && result.succeeded > 0 && result.seconds < 60)
      }),
    )
  })

  for (const [what, given] of [
    ['of a given time', ['--warmup', '60']],
    ['until the server is steady', []],
  ] as const) {
    test(`a signal during the warm-up ${what}: nothing is measured`, async () => {
      const file = path.join(folder, 'warm-up.json')
      const run = startBench(folder, '--directory', `${origin}/`, ...ENDLESS, ...given, '--json', file)
      await run.wrote(/nonce: warming up/)
      signalGroup(run)
      const { code, output } = await run.done
      assert.equal(code, 130, output)
      assert.doesNotMatch(output, /measuring|succeeded/)
      assert.deepEqual([readDocument(file).interruptedBy, resultsIn(file)], ['SIGINT', []])
    })
  }

  test('a signal while nobody answers the preparations ends at once', async () => {
    const run = startBench(folder, '--directory', `${origin}/never`, ...ENDLESS, '--timeout', '60')
    await run.wrote(/nonce: preparing/)
    signalGroup(run)
    const { code, output } = await run.done
    assert.equal(code, 130)
    assert.match(output, /\ninterrupted by SIGINT: /)
  })

  test('a second signal does not wait for what is under way', async () => {
    const run = startBench(folder, '--directory', `${origin}/mute`, ...ENDLESS, '--warmup', '0', '--timeout', '60')
    await run.wrote(/nonce: measuring/)
    const at = performance.now()
    // A bench that hears the first one late takes what follows soon for the same.
    for (; run.child.exitCode === null && performance.now() - at < 30_000; await delay(ANOTHER_MS)) signalGroup(run)
    assert.equal((await run.done).code, 130)
  })

  test('a generator that dies ends the run with its reason', async () => {
    const run = startBench(folder, '--directory', `${origin}/`, ...ENDLESS, '--warmup', '0')
    await run.wrote(/nonce: measuring [1-9]/)
    const [generator] = familyOf(run.child.pid as number).filter(({ commandLine }) =>
      commandLine.join(' ').includes('generator/process.js'),
    )
    process.kill(generator?.pid as number, 'SIGKILL')
    const { code, output } = await run.done
    assert.equal(code, 1)
    assert.match(output, /a generator process ended early \(SIGKILL\)/)
  })

  test('a server that cannot be started ends the run with its message at once', async () => {
    const { code, output } = await startBench(folder, '--start', '--server-cpus', '99').done
    assert.equal(code, 1)
    assert.match(output, /did not start: it ended with 1\ntaskset: /)
    assert.deepEqual(leftIn(folder), [])
  })

  test('the servers of a bench that is killed end', async () => {
    const run = startBench(folder, '--start', '--workers', '1', ...ENDLESS, '--warmup', '0')
    await run.wrote(/nonce: measuring/)
    process.kill(run.child.pid as number, 'SIGKILL')
    await until('servers have ended', () => leftIn(folder).every((one) => one.startsWith('chancery-bench-')))
  })
})
