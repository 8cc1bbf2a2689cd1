/** PostgreSQL, its schema, and a pooler in front. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { freePort } from '../../support/free-port.ts'
import { until } from '../../support/until.ts'
import type { Stand } from '../stand.ts'
import type { Fault } from './fault.ts'

/** Starts pgbouncer in front of the database of a stand, with sessions that it shares. */
async function startPooler({ folder, postgres, serverPort, later }: Stand): Promise<{ port: number }> {
  const port = await freePort()
  const [file, users] = [path.join(folder, 'pgbouncer.ini'), path.join(folder, 'users.txt')]
  writeFileSync(users, '"chancery" ""\n')
  const lines = [
    '[databases]',
    `chancery = host=127.0.0.1 port=${serverPort}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = trust',
    `auth_file = ${users}`,
    'pool_mode = transaction',
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  // It refuses to run as root: it gets the user of the server.
  const { uid, gid } = statSync(path.join(postgres.folder, 'cluster'))
  for (const one of [users, file]) chownSync(one, uid, gid)
  const pooler = spawn('pgbouncer', ['-q', file], { stdio: 'ignore', uid, gid })
  later(async () => {
    const ended = once(pooler, 'exit')
    pooler.kill('SIGKILL')
    await ended
  })
  await until('pgbouncer listens', () => listens(port))
  return { port }
}

function listens(port: number): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(undefined))
  })
}

const alter = (name: string, value: string) => ({
  plant: [`ALTER SYSTEM SET ${name} = '${value}'`, 'SELECT pg_reload_conf()', 'SELECT pg_sleep(0.3)'],
  undo: [`ALTER SYSTEM RESET ${name}`, 'SELECT pg_reload_conf()', 'SELECT pg_sleep(0.3)'],
})

const moveFirstEntry = (by: string) => [
  'ALTER TABLE admin_audit_log DISABLE TRIGGER ALL',
  `UPDATE admin_audit_log SET created_at = created_at + interval '${by}' WHERE sequence = 1`,
  'ALTER TABLE admin_audit_log ENABLE TRIGGER ALL',
]

export const DATABASE: Fault[] = [
  {
    name: 'an entry of the audit log was changed',
    id: 'database.audit',
    mend: /audit verify/,
    sql: { plant: moveFirstEntry('1 second'), undo: moveFirstEntry('-1 second') },
  },
  {
    name: 'synchronous_commit is off',
    id: 'database.durable',
    mend: /synchronous_commit = on/,
    sql: {
      plant: ['ALTER ROLE chancery SET synchronous_commit = off'],
      undo: ['ALTER ROLE chancery RESET synchronous_commit'],
    },
  },
  { name: 'autovacuum is off', id: 'database.vacuum', mend: /autovacuum = on/, sql: alter('autovacuum', 'off') },
  {
    name: 'commits wait for a replica that is not there',
    id: 'database.replication',
    mend: /synchronous_standby_names/,
    sql: alter('synchronous_standby_names', 'replica1'),
  },
  {
    name: 'a replica was removed, and its slot was not',
    id: 'database.slots',
    mend: /pg_drop_replication_slot\('gone'\)/,
    sql: {
      plant: [`SELECT pg_create_physical_replication_slot('gone', true)`],
      undo: [`SELECT pg_drop_replication_slot('gone')`],
    },
  },
  {
    name: 'the build of an index was cut off',
    id: 'database.indexes',
    mend: /REINDEX INDEX CONCURRENTLY crls_pkey/,
    sql: {
      plant: [`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'crls_pkey'::regclass`],
      undo: [`UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'crls_pkey'::regclass`],
    },
  },
  {
    name: 'the role may not read a table',
    id: 'database.rights',
    mend: /Another owner/,
    sql: { plant: ['REVOKE SELECT ON csr_profiles FROM chancery'], undo: ['GRANT SELECT ON csr_profiles TO chancery'] },
  },
  {
    name: 'a migration is missing',
    id: 'database.schema',
    mend: /db migrate/,
    sql: {
      plant: [
        'CREATE TABLE kept AS SELECT * FROM schema_migrations WHERE version = 12',
        'DELETE FROM schema_migrations WHERE version = 12',
      ],
      undo: ['INSERT INTO schema_migrations SELECT * FROM kept', 'DROP TABLE kept'],
    },
  },
  {
    name: 'PostgreSQL has no room for all connections',
    id: 'database.connections',
    mend: /max_connections = \d+/,
    config: { 'database.max_connections': 200 },
  },
  {
    name: 'PostgreSQL does not know the role',
    id: 'database.reachable',
    mend: /database\.user/,
    config: { 'database.user': 'chancey' },
    blinds: true,
  },
  {
    name: 'pgbouncer shares sessions',
    id: 'database.sessions',
    mend: /pool_mode = session/,
    config: async (stand) => ({ 'database.port': (await startPooler(stand)).port }),
    blinds: true,
  },
]
