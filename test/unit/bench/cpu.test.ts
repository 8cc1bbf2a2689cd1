import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { busiestBetween, threadTicks } from '../../../bench/measure/busy-threads.ts'
import { findListener, listeningInodes } from '../../../bench/measure/find-server.ts'
import {
  familyOf,
  type ProcessInfo,
  ProcessTrees,
  parseProcStat,
  readProcesses,
} from '../../../bench/measure/proc-stat.ts'
import { cpuBetween, cpuByRole, roleOfCommand } from '../../../bench/measure/server-cpu.ts'

const onLinux = { skip: process.platform === 'linux' ? false : 'needs /proc' }

describe('a line of /proc/<pid>/stat', () => {
  const line = (name: string) =>
    `4711 (${name}) S 42 4711 4711 0 -1 4194560 9 8 7 6 101 23 40 5 20 0 11 0 12345 1000000 500 18446744073709551615\n`

  for (const name of ['node', 'postgres: a) S 1 (b', 'two words']) {
    test(`is read past the name "${name}"`, () => {
      assert.deepEqual(parseProcStat(line(name)), { pid: 4711, parentPid: 42, ownTicks: 124, reapedTicks: 45 })
    })
  }

  test('that is none is an error', () => assert.throws(() => parseProcStat('hello'), /not a stat line/))
})

const SERVICE = aProcess(10, 1, 100, 'node', 'dist/src/cli/main.js')
const SIGNER = aProcess(11, 10, 30, 'node', '/opt/chancery/dist/signer/main.js')
const POSTMASTER = aProcess(12, 10, 5, '/usr/lib/postgresql/15/bin/postgres', '-D', 'data')
const BACKEND = aProcess(13, 12, 40, 'postgres: chancery chancery 127.0.0.1(4) INSERT')
const STRANGER = aProcess(99, 1, 1000, 'postgres: another')

describe('server CPU by role', () => {
  test('is found below the service, and leaves strangers out', () => {
    const used = cpuByRole([STRANGER, BACKEND, POSTMASTER, SIGNER, SERVICE], { service: 10 })
    assert.deepEqual(used, { service: 1_000_000, signer: 300_000, postgres: 450_000 })
  })

  test('follows given pids where the command line says nothing', () => {
    const odd = aProcess(20, 1, 7, 'my-signer')
    assert.deepEqual(cpuByRole([SERVICE, odd], { service: 10, signer: 20 }), { service: 1_000_000, signer: 70_000 })
  })

  test('counts a given pid below another once', () => {
    const used = cpuByRole([SERVICE, POSTMASTER, BACKEND], { postgres: 12, service: 10 })
    assert.deepEqual(used, { service: 1_000_000, postgres: 450_000 })
  })

  test('keeps what a backend used that came and went in between', () => {
    const before = cpuByRole([SERVICE, POSTMASTER, BACKEND], { service: 10 })
    const reaped = { ...POSTMASTER, ownTicks: 6, reapedTicks: 40 + 25 }
    const fresh = aProcess(14, 12, 3, 'postgres: chancery chancery idle')
    const after = cpuByRole([SERVICE, reaped, fresh], { service: 10 })
    // The old backend went on for 25 ticks and ended, the postmaster used one, the new backend three.
    assert.deepEqual(cpuBetween(before, after), { service: 0, postgres: 290_000 })
  })

  test('of a process that is not there is an error', () => {
    assert.throws(() => cpuByRole([SERVICE], { postgres: 77 }), /no process 77 \(given as postgres\)/)
  })

  test('sees this process work', onLinux, () => {
    const before = cpuByRole(readProcesses(), { service: process.pid })
    const own = process.cpuUsage()
    while (process.cpuUsage(own).user < 200_000) Math.sqrt(2)
    const { service } = cpuBetween(before, cpuByRole(readProcesses(), { service: process.pid }))
    assert.ok(service !== undefined && service >= 180_000, `${service} µs`)
  })
})

describe('the busiest threads', () => {
  const ticks = (...threads: [number, number][]) => new Map(threads)

  test('are told by part, with those that began in between and without those that ended', () => {
    const before = { front: ticks([11, 100], [12, 100], [13, 900]), main: ticks([10, 50]) }
    const after = { front: ticks([11, 290], [12, 220], [14, 30]), main: ticks([10, 70]), postgres: ticks([40, 100]) }
    assert.deepEqual(busiestBetween(before, after, 2), { front: 0.95, main: 0.1, postgres: 0.5 })
    assert.deepEqual(busiestBetween({}, {}, 1), {})
  })

  test('are the first, and one of the others, of this process', onLinux, async () => {
    const self = { ...aProcess(process.pid, 1, 0, 'node'), role: 'service' as const }
    const worker = new Worker('for (;;) Math.sqrt(2)', { eval: true })
    try {
      await once(worker, 'online')
      const before = threadTicks([self])
      const secondsUsed = () => busiestBetween(before, threadTicks([self]), 1)
      while ((secondsUsed().front ?? 0) < 0.3) await setTimeout(50)
      const { main } = secondsUsed()
      assert.ok(main !== undefined && main < 0.3, `${main} s`)
    } finally {
      await worker.terminate()
    }
  })

  test('of PostgreSQL are its processes', () => {
    const postgres = threadTicks([POSTMASTER, BACKEND].map((process) => ({ ...process, role: 'postgres' as const })))
    assert.deepEqual(postgres, { postgres: ticks([12, 5], [13, 40]) })
  })

  test('of a process that has ended are none', onLinux, () => {
    assert.deepEqual(threadTicks([{ ...aProcess(2 ** 22 + 1, 1, 0, 'node'), role: 'signer' }]), {})
  })
})

describe('the processes below some', onLinux, () => {
  test('are the same as in a look at all of them, also those that come later', async () => {
    const trees = new ProcessTrees([process.pid])
    const pidsOf = (processes: readonly ProcessInfo[]) => processes.map(({ pid }) => pid).toSorted((a, b) => a - b)
    assert.ok(pidsOf(trees.read()).includes(process.pid))
    // A shell with a child of its own: two generations at once.
    const child = spawn('sh', ['-c', 'sleep 30 & echo; wait'], { stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    try {
      await once(child.stdout, 'data')
      const found = trees.read()
      assert.deepEqual(pidsOf(found), pidsOf(familyOf(process.pid, readProcesses())))
      const shell = found.find(({ pid }) => pid === child.pid)
      assert.equal(shell?.commandLine[0], 'sh')
      assert.equal(found.filter(({ parentPid }) => parentPid === child.pid).length, 1)
      assert.deepEqual(pidsOf(trees.read()), pidsOf(found), 'who is known is found again')
    } finally {
      process.kill(-(child.pid as number), 'SIGKILL')
      await once(child, 'exit')
    }
    assert.ok(!pidsOf(trees.read()).includes(child.pid as number))
  })

  test('of nobody are none', () => assert.deepEqual(new ProcessTrees([2 ** 22 + 1]).read(), []))
})

describe('command lines', () => {
  const cases: [string[], ReturnType<typeof roleOfCommand>][] = [
    [['chancery-signer', '--config', 'x'], 'signer'],
    [['node', '--enable-source-maps', 'dist/signer/main.js'], 'signer'],
    [['node', '/opt/chancery/dist/signer/start.cjs', 'serve', '-c', 'signer.yaml'], 'signer'],
    [['postgres: checkpointer '], 'postgres'],
    [['node', 'dist/src/cli/main.js', 'serve'], undefined],
    [['vi', 'postgres.conf'], undefined],
    [[], undefined],
  ]
  for (const [words, role] of cases) {
    test(`"${words.join(' ')}" is ${role ?? 'no role of its own'}`, () => assert.equal(roleOfCommand(words), role))
  }
})

describe('finding who listens on a port', () => {
  test('takes listening sockets of exactly that port', () => {
    const row = (local: string, state: string, inode: number) =>
      `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  1000        0 ${inode} 1 0000 100 0`
    const table = [
      '  sl  local_address',
      row('0100007F:36B0', '0A', 5),
      row('0100007F:36B0', '01', 6),
      row('0:6B0', '0A', 7),
    ]
    assert.deepEqual(listeningInodes(table.join('\n'), 14000), ['5'])
  })

  test('finds this process', onLinux, async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    assert.equal(findListener(port), process.pid)
    await new Promise((resolve) => server.close(resolve))
    assert.equal(findListener(port), undefined)
  })
})

function aProcess(pid: number, parentPid: number, ownTicks: number, ...commandLine: string[]): ProcessInfo {
  return { pid, parentPid, ownTicks, reapedTicks: 0, commandLine }
}
