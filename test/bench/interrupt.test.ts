/** How the bench ends when it does not come to its end: signals, killed generators, a killed bench. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Fleet } from '../../bench/generator/fleet.ts'
import type { GeneratorJob } from '../../bench/generator/messages.ts'
import { familyOf, readProcesses } from '../../bench/measure/proc-stat.ts'
import { readDocument, resultsIn } from '../support/bench-document.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')
/** None of the runs comes to its end within the test. */
const ENDLESS = ['--scenario', 'nonce', '--clients', '2', '--duration', '60']
/** Longer than one Ctrl-C takes to arrive by two ways. */
const ANOTHER_MS = 600

interface Run {
  child: ChildProcess
  /** @returns when it has written this. */
  wrote(what: RegExp): Promise<void>
  done: Promise<{ code: number | null; output: string }>
}

describe('the end of the bench', {
  skip: process.platform === 'linux' ? false : 'reads /proc',
  timeout: 600_000,
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

  function start(...args: string[]): Run {
    const env = { ...process.env, TMPDIR: folder }
    const child = spawn(process.execPath, [MAIN, ...args], { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const wrote = (what: RegExp) =>
      new Promise<void>((resolve) => {
        const look = () => what.test(output) && resolve()
        for (const stream of [child.stdout, child.stderr]) stream?.on('data', look)
        look()
      })
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    return { child, wrote, done: new Promise((resolve) => child.once('close', (code) => resolve({ code, output }))) }
  }

  const signalGroup = ({ child }: Run, signal: NodeJS.Signals) => process.kill(-(child.pid as number), signal)
  const ours = () => readProcesses().filter(({ commandLine }) => commandLine.join(' ').includes(folder))
  const leftovers = () => readdirSync(folder).filter((name) => name.startsWith('chancery-'))

  test('a generator that dies ends the run with its reason', async () => {
    const run = start('--directory', `${origin}/`, ...ENDLESS, '--warmup', '0', '--processes', '2')
    await run.wrote(/nonce: measuring [1-9]/)
    const generator = familyOf(run.child.pid as number, readProcesses()).find(({ commandLine }) =>
      commandLine.join(' ').includes('generator/process.js'),
    )
    process.kill(generator?.pid as number, 'SIGKILL')
    const { code, output } = await run.done
    assert.equal(code, 1)
    assert.match(output, /a generator process ended early \(SIGKILL\)/)
  })

  test('a generator that died before it was asked says so, each time', async () => {
    const job = { directoryUrl: origin } as GeneratorJob
    const fleet = new Fleet([job], () => undefined)
    const [generator] = familyOf(process.pid, readProcesses()).filter(({ commandLine }) =>
      commandLine.join(' ').includes('generator/process.js'),
    )
    process.kill(generator?.pid as number, 'SIGKILL')
    for (let i = 0; i < 2; i++) await assert.rejects(fleet.prepare(), /ended early \(SIGKILL\)/)
    await fleet.close()
  })

  test('a signal to the process group while measuring: the result until then, marked, and 128 and its number', async () => {
    const ends = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const
    const signals = Object.entries(ends) as [keyof typeof ends, number][]
    await Promise.all(
      signals.map(async ([signal, exitCode]) => {
        const [file, html] = [path.join(folder, `${signal}.json`), path.join(folder, `${signal}.html`)]
        const files = ['--json', file, '--html', html]
        const run = start('--directory', `${origin}/`, ...ENDLESS, '--warmup', '0', ...files)
        await run.wrote(/nonce: measuring [1-9]/)
        signalGroup(run, signal)
        const { code, output } = await run.done
        assert.equal(code, exitCode, output)
        assert.match(output, new RegExp(`succeeded, 0 failed[^]*\\ninterrupted by ${signal}: `))
        assert.equal(readDocument(file).interruptedBy, signal)
        assert.match(readFileSync(html, 'utf8'), new RegExp(`by ${signal}: `))
        const [result] = resultsIn(file)
        assert.ok(result && result.succeeded > 0 && result.seconds < 30)
      }),
    )
  })

  test('a signal during the warm-up: nothing is measured', async () => {
    const file = path.join(folder, 'warm-up.json')
    const run = start('--directory', `${origin}/`, ...ENDLESS, '--warmup', '60', '--json', file)
    await run.wrote(/nonce: warming up/)
    signalGroup(run, 'SIGINT')
    const { code, output } = await run.done
    assert.equal(code, 130, output)
    assert.doesNotMatch(output, /measuring|succeeded/)
    assert.deepEqual([readDocument(file).interruptedBy, resultsIn(file)], ['SIGINT', []])
  })

  test('a signal while an open loop settles: what the loads before it brought stays', async () => {
    const file = path.join(folder, 'settling.json')
    const loads = ['--scenario', 'nonce', '--duration', '1', '--warmup', '0', '--rate', '50%']
    const run = start('--directory', `${origin}/`, ...loads, '--json', file)
    await run.wrote(/warming up/)
    signalGroup(run, 'SIGINT')
    const { code, output } = await run.done
    assert.equal(code, 130, output)
    assert.doesNotMatch(output, /open loop/)
    assert.equal(resultsIn(file).length, 1)
  })

  test('a signal while nobody answers the preparations ends at once', async () => {
    const run = start('--directory', `${origin}/never`, ...ENDLESS, '--timeout', '60')
    await run.wrote(/nonce: preparing/)
    signalGroup(run, 'SIGINT')
    const { code, output } = await run.done
    assert.equal(code, 130)
    assert.match(output, /\ninterrupted by SIGINT: /)
  })

  test('a second signal does not wait for what is under way', async () => {
    const run = start('--directory', `${origin}/mute`, ...ENDLESS, '--warmup', '0', '--timeout', '60')
    await run.wrote(/nonce: measuring/)
    // From the terminal, and from npm, which passes it on.
    const at = performance.now()
    signalGroup(run, 'SIGINT')
    await delay(20)
    const isOneCtrlC = performance.now() - at < ANOTHER_MS / 2
    signalGroup(run, 'SIGINT')
    const hasEnded = () => run.child.exitCode !== null || run.child.signalCode !== null
    await Promise.race([run.done, delay(ANOTHER_MS)])
    if (isOneCtrlC) assert.equal(hasEnded(), false, 'the first one waits')
    // A bench that hears the first one late takes what follows soon for the same. Unasked it would wait for 60 seconds.
    while (!hasEnded()) {
      assert.ok(performance.now() - at < 30_000)
      signalGroup(run, 'SIGINT')
      await Promise.race([run.done, delay(ANOTHER_MS)])
    }
    assert.equal((await run.done).code, 130)
  })

  test('micro ends when its measurement has ended, and keeps the results', async () => {
    const file = path.join(folder, 'micro.json')
    const run = start('micro', '--json', file, 'jws-verify', 'csr-verify', 'order-create')
    await run.wrote(/jws-verify +\d/)
    signalGroup(run, 'SIGINT')
    const { code, output } = await run.done
    assert.equal(code, 130, output)
    const { interruptedBy, micro } = readDocument(file)
    assert.equal(interruptedBy, 'SIGINT')
    assert.ok(micro && micro.results.length < 3 && micro.results[0]?.name === 'jws-verify')
  })

  test('micro leaves no database, and signer no keys behind', async () => {
    const commands = [
      ['micro', '--rows', '50000', 'order-create'],
      ['signer', '--types', 'P-256', '--sessions', '0', '--duration', '60'],
    ]
    await Promise.all(
      commands.map(async (command) => {
        const run = start(...command)
        while (leftovers().length < commands.length) await delay(20)
        await delay(1000)
        signalGroup(run, 'SIGINT')
        const { code, output } = await run.done
        assert.equal(code, 130, output)
        assert.match(output, /\ninterrupted by SIGINT: /)
      }),
    )
    assert.deepEqual([leftovers(), ours()], [[], []])
  })

  test('load ends between two statements, and its database with it', async () => {
    const data = path.join(folder, 'data')
    const run = start('load', '--data-dir', data, '--certificates', '2000000', '--accounts', '100000')
    await run.wrote(/accounts: \d/)
    signalGroup(run, 'SIGINT')
    const { code, output } = await run.done
    assert.equal(code, 130, output)
    assert.deepEqual(ours(), [])
  })

  test('a server that cannot be started ends the run with its message at once', async () => {
    const at = performance.now()
    const { code, output } = await start('--start', '--server-cpus', '99').done
    assert.equal(code, 1)
    assert.match(output, /did not start: it ended with 1\ntaskset: /)
    assert.ok(performance.now() - at < 60_000)
    assert.deepEqual([leftovers(), ours()], [[], []])
  })

  test('the servers of a bench that is killed end', async () => {
    const run = start('--start', '--workers', '1', ...ENDLESS, '--warmup', '0')
    await run.wrote(/nonce: measuring/)
    assert.ok(ours().length > 2, 'service, signer, PostgreSQL')
    process.kill(run.child.pid as number, 'SIGKILL')
    const end = performance.now() + 60_000
    while (ours().length > 0 && performance.now() < end) await delay(50)
    assert.deepEqual(ours(), [])
  })
})
