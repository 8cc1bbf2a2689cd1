/** Debian's pgbouncer between the service and PostgreSQL: one session each works, shared sessions are found and named. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { stringify } from 'yaml'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { parseCertificate, serialNumberHex } from '../../src/shared/pki/certificate.ts'
import { type DatabaseSettings, openDatabase, requireWrites } from '../../src/store/database.ts'
import { announceInstance } from '../../src/store/instance-presence.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { requireUsableSchema } from '../../src/store/schema/schema-state.ts'
import { requireOwnSessions, SharedSessions } from '../../src/store/session.ts'
import { openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { base64url, closeConnections, registeredClient, send, startResponder } from '../support/acme-client.ts'
import { adminConfig, administrator } from '../support/admin.ts'
import { readCrl } from '../support/crl.ts'
import { freePort } from '../support/free-port.ts'
import { WAIT_MS } from '../support/patience.ts'
import { requireCommand } from '../support/requirements.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { settingsFor } from './support.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
/** For three front threads, the supervisor, and the threads of administrators and events. */
const CONNECTIONS = 10
const MODES = ['session', 'transaction', 'statement'] as const
type Mode = (typeof MODES)[number]

describe('through pgbouncer', requireCommand('pgbouncer'), () => {
  const folder = temporaryFolder()
  let server: EmbeddedPostgres
  let serverPort: number
  const poolers: ChildProcess[] = []
  const ports = new Map<Mode, number>()
  before(async () => {
    chmodSync(folder, 0o755)
    const hba = path.join(folder, 'pg_hba.conf')
    writeFileSync(hba, 'local all postgres trust\nhost all chancery 127.0.0.1/32 trust\n')
    serverPort = await freePort()
    server = await startEmbeddedPostgres({
      dataDir: path.join(folder, 'postgres'),
      settings: { fsync: 'off', listen_addresses: '127.0.0.1', port: serverPort, hba_file: hba },
      log: () => undefined,
    })
    await migrate(settingsFor({ host: '127.0.0.1', port: serverPort, user: 'chancery', database: 'chancery' }, 1))
    for (const mode of MODES) ports.set(mode, await startPooler(mode))
  })
  after(async () => {
    for (const pooler of poolers) {
      const ended = once(pooler, 'exit')
      pooler.kill('SIGKILL')
      await ended
    }
    await server?.stop()
  })

  /** It refuses to run as root: it gets the user of the server. */
  async function startPooler(mode: Mode, ...settings: string[]): Promise<number> {
    const port = await freePort()
    const { uid, gid } = statSync(path.join(server.folder, 'cluster'))
    const file = path.join(folder, `${port}.ini`)
    const users = path.join(folder, 'users.txt')
    writeFileSync(users, '"chancery" ""\n')
    writeFileSync(
      file,
      `[databases]
chancery = host=127.0.0.1 port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = ${mode}
${settings.join('\n')}
`,
    )
    for (const one of [users, file]) if (process.getuid?.() === 0) chownSync(one, uid, gid)
    const pooler = spawn('pgbouncer', ['-q', file], {
      stdio: 'ignore',
      ...(process.getuid?.() === 0 && { uid, gid }),
    })
    poolers.push(pooler)
    await until('pgbouncer listens', () => canConnect(port))
    return port
  }

  const settingsOf = (mode: Mode): DatabaseSettings =>
    settingsFor({ host: '127.0.0.1', port: ports.get(mode) ?? 0, user: 'chancery', database: 'chancery' }, 2)

  test('with pool_mode = session every way of the service to the database works', async (t) => {
    const settings = settingsOf('session')
    await requireOwnSessions(settings)
    await requireUsableSchema(settings)
    const db = openDatabase(settings, assert.fail)
    t.after(() => db.close())
    await requireWrites(db)
    assert.deepEqual(await db.pipeline.run({ name: 'one', text: 'SELECT 1 AS one' }, []), [{ one: 1 }])
    const checked = await openCheckedDatabase(settings)
    t.after(() => checked.end())
    assert.equal(await checked.oneFirst(sql.unsafe`SELECT current_setting('statement_timeout')`), '30s')
    const presence = await announceInstance(settings, assert.fail)
    t.after(() => presence.close())
    assert.deepEqual(await presence.liveInstances(), [presence.instanceId])
  })

  test('with ten sessions a whole instance works: flows, CRL in parts, events, Admin API', async (t) => {
    const connection = { host: '127.0.0.1', port: serverPort, user: 'chancery', database: 'chancery' }
    // What asks for an eleventh is refused in the end.
    const port = await startPooler(
      'session',
      `default_pool_size = ${CONNECTIONS}`,
      `query_wait_timeout = ${Math.ceil(WAIT_MS / 1000)}`,
    )
    const service = await startTestService({
      database: { connection, drop: async () => undefined },
      config: {
        ...adminConfig(),
        server: { workers: 3 },
        database: { port, max_connections: CONNECTIONS },
        notifications: { enabled: true },
        crl: { enabled: true, shards: 4, complete: false },
      },
    })
    t.after(() => service.dispose())
    const admin = await administrator(service, 'alice')
    const responder = await startResponder(service.http01Port)
    t.after(async () => {
      closeConnections()
      await responder.close()
    })
    const client = await registeredClient(service.directoryUrl)
    const names = Array.from({ length: 24 }, (_, index) => `pooled-${index}.test`)
    const issued = await Promise.all(names.map((name) => client.obtain([name], responder)))
    const lists = await Promise.all(issued.map(() => admin.get('/certificates')))
    assert.deepEqual(new Set(lists.map(({ status, json }) => `${status} ${json.length}`)), new Set(['200 24']))

    const { der } = issued[0]!
    const revocation = { certificate: base64url(der) }
    assert.equal((await client.post(client.directory['revokeCert'] as string, revocation)).status, 200)
    const { crlDistributionPointUrls, serialNumber } = parseCertificate(der).tbs
    await until('the certificate is on the list that it names', async () => {
      const { status, body } = await send({ method: 'GET', url: crlDistributionPointUrls[0] ?? '' })
      return status === 200 && readCrl(body).entries.some(({ serial }) => serial === serialNumberHex(serialNumber))
    })
    for (const name of ['', '/default']) {
      const whole = await send({ method: 'GET', url: `${service.baseUrl}/crl${name}` })
      assert.deepEqual([whole.status, /published in parts/.test(whole.text)], [404, true])
    }
    const troubles = service.log.filter(({ level }) => level === 'error' || level === 'fatal')
    assert.deepEqual(troubles, [])
  })

  for (const mode of ['transaction', 'statement'] as const)
    test(`pool_mode = ${mode} is found, and named by db status with what to do`, async () => {
      await assert.rejects(requireOwnSessions(settingsOf(mode)), SharedSessions)
      const file = path.join(folder, 'config.yaml')
      const port = ports.get(mode)
      const ca = { internal: { root_cert_path: 'ca.pem', root_key_path: 'ca.key' } }
      const database = { host: '127.0.0.1', port, user: 'chancery', database: 'chancery', sslmode: 'disable' }
      writeFileSync(file, stringify({ server: { external_url: 'http://127.0.0.1:1' }, database, ca }))
      const { code, output } = await runCommand(process.execPath, [CLI, '-c', file, 'db', 'status'])
      assert.equal(code, 1)
      assert.match(output, /a pooler at 127\.0\.0\.1:\d+ gives one session .*set pool_mode = session/)
    })
})

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
