/** TLS to PostgreSQL as libpq has it, against a real server and against one that only pretends to be one. */

import assert from 'node:assert/strict'
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { rootCertificates } from 'node:tls'
import pg from 'pg'
import { pino } from 'pino'
import { z } from 'zod/v4'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { awaitDatabase } from '../../src/main/start-database.ts'
import { type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { announceInstance } from '../../src/store/instance-presence.ts'
import type { SslMode } from '../../src/store/pg.ts'
import { readSchemaState } from '../../src/store/schema/schema-state.ts'
import { isBusy, openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { loopbackCertificate, writeCertificate } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { settingsFor } from './support.ts'

const SECRET = 'correct-horse-battery'
const PREFERRED = ['prefer', 'allow'] as const
const IS_TLS = 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'

const none = () => undefined

/** Every way in which the service opens connections, and whether the one that it got has TLS. */
const WAYS: Record<string, (settings: DatabaseSettings) => Promise<boolean>> = {
  async 'the pool'(settings) {
    const database = openDatabase(settings, none)
    try {
      const [row] = await database.query<{ ssl: boolean }>({ name: 'is_tls', text: IS_TLS }, [])
      return row?.ssl === true
    } finally {
      await database.close()
    }
  },
  async slonik(settings) {
    const database = await openCheckedDatabase(settings)
    try {
      const row = await database.one(
        sql.type(z.object({ ssl: z.boolean() }))`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`,
      )
      return row.ssl === true
    } finally {
      await database.end()
    }
  },
}

const hasTls = (settings: DatabaseSettings) => (WAYS['the pool'] as (typeof WAYS)[string])(settings)

describe('a real server', () => {
  const folder = temporaryFolder()
  let server: EmbeddedPostgres
  let port: number

  const over = (sslmode: SslMode, user = 'chancery'): DatabaseSettings => ({
    ...settingsFor({ host: '127.0.0.1', port, user, database: 'chancery', password: SECRET }, 1),
    sslmode,
  })

  before(async () => {
    // The server has a user of its own where the tests run as root.
    chmodSync(folder, 0o755)
    port = await freePort()
    const hba = path.join(folder, 'pg_hba.conf')
    writeFileSync(
      hba,
      'local all postgres trust\nlocal all chancery password\nhost all chancery 127.0.0.1/32 password\nhost all scrambled 127.0.0.1/32 scram-sha-256\n',
    )
    server = await startEmbeddedPostgres({
      dataDir: path.join(folder, 'postgres'),
      settings: { fsync: 'off', listen_addresses: '127.0.0.1', port, hba_file: hba },
      log: none,
    })
    const { uid, gid } = statSync(path.join(server.folder, 'cluster'))
    for (const file of Object.values(writeCertificate(folder, 'server', await loopbackCertificate())))
      chownSync(file, uid, gid)
    await asSuperuser(
      `ALTER ROLE chancery PASSWORD '${SECRET}'`,
      `CREATE ROLE scrambled LOGIN PASSWORD '${SECRET}'`,
      `ALTER SYSTEM SET ssl_cert_file = '${path.join(folder, 'server.pem')}'`,
      `ALTER SYSTEM SET ssl_key_file = '${path.join(folder, 'server.key')}'`,
    )
  })

  after(async () => {
    await server?.stop()
  })

  async function asSuperuser(...statements: string[]): Promise<void> {
    const { host } = server.connection
    const client = new pg.Client({ host, port, user: 'postgres', database: 'postgres' })
    await client.connect()
    for (const statement of statements) await client.query(statement)
    await client.end()
  }

  /** A reload takes a moment to arrive, so a new session is asked. */
  async function offerTls(offered: boolean): Promise<void> {
    const value = offered ? 'on' : 'off'
    await asSuperuser(`ALTER SYSTEM SET ssl = ${value}`, 'SELECT pg_reload_conf()')
    for (;;) {
      const client = new pg.Client({ host: server.connection.host, port, user: 'postgres', database: 'postgres' })
      await client.connect()
      const { rows } = await client.query('SHOW ssl')
      await client.end()
      if (rows[0].ssl === value) return
    }
  }

  test('prefer and allow use TLS where the server offers it', async () => {
    await offerTls(true)
    for (const sslmode of PREFERRED)
      for (const [name, tls] of Object.entries(WAYS))
        assert.equal(await tls(over(sslmode)), true, `${name}, ${sslmode}`)
  })

  test('prefer and allow connect without TLS where the server offers none', async () => {
    await offerTls(false)
    for (const sslmode of PREFERRED)
      for (const [name, tls] of Object.entries(WAYS))
        assert.equal(await tls(over(sslmode, 'scrambled')), false, `${name}, ${sslmode}`)
  })

  test('a password goes in clear text over TLS and over the Unix socket, and not otherwise', async () => {
    await offerTls(true)
    assert.equal(await hasTls(over('prefer')), true)
    assert.equal(await hasTls({ ...over('prefer'), hosts: [server.connection.host] }), false)
    await assert.rejects(hasTls(over('disable')), /asks for the password in clear text/)
    await offerTls(false)
    for (const [name, tls] of Object.entries(WAYS))
      await assert.rejects(tls(over('prefer')), /asks for the password in clear text/, name)
  })

  test('require wants TLS and verify-full a certificate that can be checked', async () => {
    await offerTls(true)
    assert.equal(await hasTls(over('require')), true)
    await assert.rejects(readSchemaState(over('verify-full')), /self-signed certificate.*sslmode is verify-full/)
    await offerTls(false)
    await assert.rejects(readSchemaState(over('verify-full')), /does not support SSL.*sslmode is verify-full/)
  })

  test('verify-full trusts the CA of database.sslrootcert, and no other', async () => {
    await offerTls(true)
    const own = readFileSync(path.join(folder, 'server.pem'), 'utf8')
    for (const [name, tls] of Object.entries(WAYS))
      assert.equal(await tls({ ...over('verify-full'), rootCertificates: own }), true, name)
    const [other = ''] = rootCertificates
    const refusal = /self-signed certificate/
    for (const tls of Object.values(WAYS))
      await assert.rejects(tls({ ...over('verify-full'), rootCertificates: other }), refusal)
  })

  test('to clients of a service that runs, a server that lets nobody in any more is away', async () => {
    await offerTls(true)
    const [other = ''] = rootCertificates
    // As with a certificate that has expired, and a password that has been changed.
    for (const settings of [{ ...over('verify-full'), rootCertificates: other }, over('prefer', 'nobody')])
      for (const [name, tls] of Object.entries(WAYS))
        await assert.rejects(tls(settings), (error) => isBusy(error), name)
  })

  test('a start is ended by it', async () => {
    await offerTls(true)
    const log = pino({ level: 'silent' })
    const { signal } = new AbortController()
    for (const tls of [hasTls, readSchemaState])
      await assert.rejects(
        awaitDatabase<unknown>(() => tls(over('verify-full')), log, signal),
        /self-signed certificate/,
      )
  })

  test('over the Unix socket there is no TLS to ask for, as in libpq', async () => {
    assert.equal(await hasTls({ ...over('verify-full'), hosts: [server.connection.host] }), false)
  })
})

describe('a server that is none', () => {
  let received = Buffer.alloc(0)
  /** What it says to the request for TLS. */
  let toTls = 'N'
  let server: Server
  let settings: DatabaseSettings

  const CLEAR_TEXT = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3])

  function converse(socket: Socket): void {
    let asked = false
    socket.on('error', none)
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes])
      const isTlsRequest = !asked && bytes.length === 8
      asked = true
      if (isTlsRequest) socket.write(toTls)
      else if (received.includes(SECRET)) socket.destroy()
      else socket.write(CLEAR_TEXT)
    })
  }

  before(async () => {
    server = createServer(converse)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    settings = settingsFor({ host: '127.0.0.1', port, user: 'someone', database: 'some', password: SECRET }, 1)
  })
  after(() => server.close())

  const EVERY_WAY: typeof WAYS = {
    ...WAYS,
    presence: (using) => announceInstance(using, none).then(() => false),
    'the first look at the schema': (using) => readSchemaState(using).then(() => false),
  }

  for (const [name, tls] of Object.entries(EVERY_WAY))
    test(`${name} gives it no password in clear text`, async () => {
      for (const sslmode of ['disable', ...PREFERRED] as const) {
        received = Buffer.alloc(0)
        toTls = 'N'
        await assert.rejects(tls({ ...settings, sslmode }), /asks for the password in clear text/)
        assert.equal(received.includes('someone'), true)
        assert.equal(received.includes(SECRET), false, sslmode)
      }
    })

  for (const [what, answer] of Object.entries({
    'an error': 'E\0\0\0\x05\0',
    'a refusal with more behind it': 'NR',
    'a handshake that fails': 'S',
  }))
    test(`${what} in answer to the request for TLS is no reason to go on without`, async () => {
      received = Buffer.alloc(0)
      toTls = answer
      await assert.rejects(hasTls({ ...settings, sslmode: 'prefer' }))
      assert.equal(received.includes('someone'), false)
    })
})
