import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'
import {
  cpuBetween,
  cpuByRole,
  familyOf,
  findListener,
  listeningInodes,
  type ProcessInfo,
  parseProcStat,
  roleOfCommand,
  sampleServer,
} from '../../../bench/measure/server-cpu.ts'

const onLinux = { skip: process.platform === 'linux' ? false : 'needs /proc' }

describe('a line of /proc/<pid>/stat', () => {
  const line = (name: string) =>
    `4711 (${name}) S 42 4711 4711 0 -1 4194560 9 8 7 6 101 23 40 5 20 0 11 0 12345 1000000 500 18446744073709551615\n`

  for (const name of ['node', 'postgres: a) S 1 (b', 'two words'])
    test(`is read past the name "${name}"`, () =>
      assert.deepEqual(parseProcStat(line(name)), { pid: 4711, parentPid: 42, ownTicks: 124, reapedTicks: 45 }))

  test('that is none is an error', () => assert.throws(() => parseProcStat('hello'), /not a stat line/))
})

const SERVICE = aProcess(10, 1, 100, 'node', 'dist/src/cli/main.js')
const SIGNER = aProcess(11, 10, 30, 'node', '/opt/chancery/dist/signer/main.js')
const POSTMASTER = aProcess(12, 10, 5, '/usr/lib/postgresql/15/bin/postgres', '-D', 'data')
const BACKEND = aProcess(13, 12, 40, 'postgres: chancery chancery 127.0.0.1(4) INSERT')

describe('server CPU by role', () => {
  test('is told by command lines, and by the parent where these say nothing', () => {
    const helper = aProcess(15, 11, 2, 'helper')
    const used = cpuByRole([SERVICE, SIGNER, helper, POSTMASTER, BACKEND])
    assert.deepEqual(used, { service: 1_000_000, signer: 320_000, postgres: 450_000 })
  })

  test('keeps what a backend used that came and went in between', () => {
    const before = cpuByRole([SERVICE, POSTMASTER, BACKEND])
    const reaped = { ...POSTMASTER, ownTicks: 6, reapedTicks: 40 + 25 }
    const fresh = aProcess(14, 12, 3, 'postgres: chancery chancery idle')
    // The old backend went on for 25 ticks and ended, the postmaster used one, the new backend three.
    const after = cpuByRole([SERVICE, reaped, fresh])
    assert.deepEqual(cpuBetween(before, after), { service: 0, postgres: 290_000 })
  })

  test('of a process that is not there is an error', onLinux, () =>
    assert.throws(() => sampleServer([2 ** 22 + 1]), /no process 4194305/),
  )

  test('sees this process work', onLinux, () => {
    const sampler = sampleServer([process.pid])
    const own = process.cpuUsage()
    while (process.cpuUsage(own).user < 60_000) Math.sqrt(2)
    sampler.end()
    const used = sampler.samples.at(-1)?.cpu.service
    assert.ok(used !== undefined && used >= 40_000, `${used} µs`)
  })

  test('counts children and their children', onLinux, async () => {
    const child = spawn('sh', ['-c', 'sleep 30 & echo; wait'], { stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    try {
      await once(child.stdout, 'data')
      const family = familyOf(process.pid)
      assert.equal(family.find(({ pid }) => pid === child.pid)?.commandLine[0], 'sh')
      assert.equal(family.filter(({ parentPid }) => parentPid === child.pid).length, 1)
    } finally {
      process.kill(-(child.pid as number), 'SIGKILL')
      await once(child, 'exit')
    }
  })
})

test('command lines tell signer and PostgreSQL, and nothing of what only looks like them', () => {
  const cases: [string[], ReturnType<typeof roleOfCommand>][] = [
    [['chancery-signer', '--config', 'x'], 'signer'],
    [['node', '/opt/chancery/dist/signer/start.cjs', 'serve', '-c', 'signer.yaml'], 'signer'],
    [['postgres: checkpointer '], 'postgres'],
    [['node', 'dist/src/cli/main.js', 'serve'], undefined],
    [['vi', 'postgres.conf'], undefined],
  ]
  for (const [words, role] of cases) assert.equal(roleOfCommand(words), role, words.join(' '))
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
