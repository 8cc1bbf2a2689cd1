import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, afterEach, describe, test } from 'node:test'
import pg from 'pg'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { identifyProcess } from '../../src/shared/lib/processes.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const isRoot = process.getuid?.() === 0

const folders: string[] = []
const servers: EmbeddedPostgres[] = []
const holders: ChildProcess[] = []

function newFolder(name = 'data'): string {
  const top = temporaryFolder()
  chmodSync(top, 0o755)
  return path.join(top, name)
}

async function start(dataDir: string, log: (line: string) => void = () => undefined): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, settings: { fsync: 'off' }, log })
  servers.push(server)
  folders.push(server.folder)
  return server
}

/** A process of its own that owns the server, so that it can be killed. */
async function hold(dataDir: string): Promise<{ holder: ChildProcess; pid: number }> {
  const program = path.join(import.meta.dirname, 'hold-postgres.js')
  const holder = spawn(process.execPath, [program, dataDir], { stdio: ['ignore', 'pipe', 'inherit'] })
  holders.push(holder)
  assert.ok(holder.stdout)
  const [line] = await once(holder.stdout, 'data')
  return { holder, pid: JSON.parse(String(line)).pid }
}

/** Ends the owner of a server and the guard that would stop it. */
async function orphan(dataDir: string): Promise<{ pid: number }> {
  const { holder, pid } = await hold(dataDir)
  const { guard } = JSON.parse(readFileSync(path.join(dataDir, 'owner.json'), 'utf8'))
  process.kill(guard.pid, 'SIGKILL')
  await kill(holder)
  return { pid }
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** Kills the server and waits for its end; the timer is there because the handle does not keep this process alive. */
async function killServer(server: EmbeddedPostgres): Promise<void> {
  const hold = setInterval(() => undefined, 1000)
  process.kill(server.pid, 'SIGKILL')
  await server.exited
  clearInterval(hold)
}

async function query(server: EmbeddedPostgres, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(server.connection)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

describe('embedded PostgreSQL', () => {
  afterEach(async () => {
    for (const holder of holders.splice(0))
      if (holder.exitCode === null && holder.signalCode === null) await kill(holder)
    for (const server of servers.splice(0)) await server.stop()
  })
  after(() => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  })

  /** With a database that was made and stopped, for one test after the other. */
  const made = newFolder()

  test('the first start makes a database, a second one continues with it', async () => {
    const lines: string[] = []
    const first = await start(made, (line) => lines.push(line))
    await query(first, 'CREATE TABLE kept AS SELECT 42 AS answer')
    await first.stop()
    assert.equal(identifyProcess(first.pid), undefined)
    const second = await start(made, (line) => lines.push(line))
    assert.deepEqual(await query(second, 'SELECT answer FROM kept'), [{ answer: 42 }])
    assert.equal(lines.filter((line) => line.startsWith('made a new database')).length, 1)
  })

  test('the service is no superuser, its database is UTF-8 and does not depend on the system locale; no port listens', async () => {
    const server = await start(made)
    const [row] = await query(
      server,
      `SELECT rolsuper, pg_encoding_to_char(encoding) AS encoding, datlocprovider AS provider
         FROM pg_database JOIN pg_roles ON rolname = current_user WHERE datname = current_database()`,
    )
    assert.deepEqual(row, { rolsuper: false, encoding: 'UTF8', provider: 'b' })
    assert.deepEqual(await query(server, 'SHOW listen_addresses'), [{ listen_addresses: '' }])
  })

  test('fsync is on unless it is switched off', async () => {
    const server = await startEmbeddedPostgres({ dataDir: made, log: () => undefined })
    servers.push(server)
    assert.deepEqual(await query(server, 'SHOW fsync'), [{ fsync: 'on' }])
  })

  test('it is in a process group of its own, where a Ctrl-C for the service does not reach it', async () => {
    const server = await start(made)
    // proc(5): after the name in parentheses come state, parent and process group.
    const stat = readFileSync(`/proc/${server.pid}/stat`, 'utf8')
    const [, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    assert.equal(Number(group), server.pid)
  })

  test('a path with spaces, quotes and commas works', async () => {
    const server = await start(newFolder('my "data", such as it is'))
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
  })

  test('a path too long for a socket gets a short socket folder, which goes away again unless something else is in it', async () => {
    const dataDir = newFolder('long'.repeat(30))
    const server = await start(dataDir)
    assert.ok(server.connection.host.length < 40, server.connection.host)
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
    await server.stop()
    assert.ok(!existsSync(server.connection.host))
    const again = await start(dataDir)
    const { host } = again.connection
    folders.push(host)
    writeFileSync(path.join(host, 'kept'), '')
    await again.stop()
    assert.deepEqual(readdirSync(host), ['kept'])
  })

  test('a data folder that is in use is refused', async () => {
    const { holder } = await hold(made)
    await assert.rejects(start(made), new RegExp(`is in use by process ${holder.pid}`))
    await kill(holder)
    const server = await start(made)
    await assert.rejects(start(server.folder), /is in use by this process/)
  })

  test('a server killed with SIGKILL is noticed, and the next start recovers what was committed', async () => {
    const first = await start(made)
    await query(first, 'CREATE TABLE committed AS SELECT 42 AS answer')
    await killServer(first)
    const second = await start(made)
    assert.deepEqual(await query(second, 'SELECT answer FROM committed'), [{ answer: 42 }])
  })

  test('a server whose owner was killed stops by itself', async () => {
    const { holder, pid } = await hold(made)
    await kill(holder)
    await until('the end of the server', () => identifyProcess(pid) === undefined)
  })

  test('a start right after the owner was killed waits for the old server and starts a new one', async () => {
    const { holder, pid } = await hold(made)
    await kill(holder)
    const server = await start(made)
    assert.notEqual(server.pid, pid)
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
  })

  test('a server that lost its owner and its guard is taken over, and stopped in the end', async () => {
    const { pid } = await orphan(made)
    const lines: string[] = []
    const server = await start(made, (line) => lines.push(line))
    assert.equal(server.pid, pid)
    assert.match(lines.join('\n'), /took over PostgreSQL/)
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
    await server.stop()
    assert.equal(identifyProcess(pid), undefined)
  })

  test('a folder that the server writes into its pid file is neither asked nor deleted', async () => {
    const dataDir = newFolder('long'.repeat(30))
    const elsewhere = newFolder('elsewhere')
    mkdirSync(elsewhere)
    writeFileSync(path.join(elsewhere, 'kept'), '')
    await orphan(dataDir)
    const pidFile = path.join(dataDir, 'cluster/postmaster.pid')
    const lines = readFileSync(pidFile, 'utf8').split('\n')
    writeFileSync(pidFile, lines.with(4, elsewhere).join('\n'))
    const server = await start(dataDir)
    await server.stop()
    assert.ok(existsSync(path.join(elsewhere, 'kept')))
    assert.equal(server.connection.host, lines[4])
    assert.ok(!existsSync(lines[4] as string), 'its own is gone')
  })

  test('a running server that is not ours is refused', async () => {
    const { pid } = await orphan(made)
    rmSync(path.join(made, 'owner.json'))
    await assert.rejects(start(made), new RegExp(`process ${pid}.*was not started from here`))
    process.kill(pid, 'SIGQUIT')
    await until('the end of the server', () => identifyProcess(pid) === undefined)
  })

  test('a pid file whose pid belongs to another program by now does not hinder the start', async () => {
    const first = await start(made)
    const pidFile = path.join(made, 'cluster/postmaster.pid')
    const owner = isRoot ? Number(spawnSync('stat', ['-c', '%u', pidFile], { encoding: 'utf8' }).stdout) : undefined
    await killServer(first)
    const stranger = spawn('sleep', ['60'], { cwd: '/', ...(owner !== undefined && { uid: owner }) })
    holders.push(stranger)
    const lines = readFileSync(pidFile, 'utf8').split('\n')
    writeFileSync(pidFile, [String(stranger.pid), ...lines.slice(1)].join('\n'))
    const second = await start(made)
    assert.deepEqual(await query(second, 'SELECT 1 AS one'), [{ one: 1 }])
    assert.ok(stranger.pid && identifyProcess(stranger.pid), 'the stranger lives on')
  })

  test('data of another major version is refused with what to do about it', async () => {
    const file = path.join(made, 'cluster/PG_VERSION')
    const version = readFileSync(file)
    writeFileSync(file, '17\n')
    await assert.rejects(start(made), /made by PostgreSQL 17, this release brings PostgreSQL \d+; dump it/)
    assert.ok(!existsSync(path.join(made, 'owner.json')), 'a failed start gives the folder up')
    writeFileSync(file, version)
  })

  test('a server that cannot start says what it wrote to its log', async () => {
    const settings = { shared_buffers: 'nonsense' }
    const starting = startEmbeddedPostgres({ dataDir: made, settings, log: () => undefined })
    await assert.rejects(starting, /shared_buffers.*nonsense/s)
  })

  test('an initialisation that was interrupted is begun anew', async () => {
    const dataDir = newFolder()
    mkdirSync(path.join(dataDir, 'cluster.new/base'), { recursive: true })
    const server = await start(dataDir)
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
  })

  test('an interrupted initialisation by the server’s user is begun anew', {
    skip: !isRoot && 'needs root',
  }, async () => {
    const dataDir = newFolder()
    const half = path.join(dataDir, 'cluster.new')
    mkdirSync(path.join(half, 'base'), { recursive: true })
    chmodSync(dataDir, 0o755)
    const { status } = spawnSync('chown', ['-R', 'postgres:', half])
    assert.equal(status, 0)
    const server = await start(dataDir)
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
    assert.ok(!existsSync(half))
  })

  test('root puts the data elsewhere when the server user cannot reach the folder', {
    skip: !isRoot && 'needs root',
  }, async () => {
    const dataDir = newFolder('closed/data')
    mkdirSync(path.dirname(dataDir), { mode: 0o700 })
    const lines: string[] = []
    const server = await start(dataDir, (line) => lines.push(line))
    assert.match(server.folder, /^\/var\/lib\/chancery\/data-[0-9a-f]{8}$/)
    assert.match(lines.join('\n'), /cannot reach/)
    assert.deepEqual(await query(server, 'SELECT 1 AS one'), [{ one: 1 }])
  })
})
