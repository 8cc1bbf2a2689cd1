/**
 * kill -9 of `db migrate` after each migration, and within each that builds an index beside the writers. What `db status` says is
 * what is there, the next run goes on, and the schema ends as one that was migrated at once.
 */

import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { configFor, runWith } from '../cli/support.ts'
import { settingsFor } from '../store/support.ts'
import { emptyDatabase, rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { withQuery } from '../support/revoked.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** Seen from the compiled file. */
const ROOT = path.resolve(import.meta.dirname, '../../..')
const MAIN = path.join(ROOT, 'compiled/src/cli/main.js')
const MIGRATIONS = readdirSync(path.join(ROOT, 'migrations'))
  .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
  .sort()
const buildsIndex = (name: string) =>
  / INDEX CONCURRENTLY /.test(readFileSync(path.join(ROOT, 'migrations', name), 'utf8'))

/** Everything by which two schemas may differ, in words of PostgreSQL. */
const SCHEMA = `
  SELECT 'column' AS kind, table_name || '.' || column_name AS name, concat_ws(' ', data_type, is_nullable, column_default) AS text
    FROM information_schema.columns WHERE table_schema = 'public'
  UNION ALL SELECT 'index', c.relname, pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'public'::regnamespace
  UNION ALL SELECT 'trigger', t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT t.tgisinternal
  UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid) || ' ' || convalidated FROM pg_constraint WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT 'function', proname, md5(prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  ORDER BY 1, 2, 3`

describe('kill -9 of db migrate', () => {
  let database: TestDatabase
  const folder = temporaryFolder()
  let config: string
  before(async () => {
    database = await emptyDatabase()
    config = configFor(settingsFor(database.connection, 1), path.join(folder, 'config.yaml'))
  })
  after(async () => {
    await database?.drop()
  })

  const applied = async (): Promise<string[]> => {
    const [table] = await rowsIn(database, "SELECT FROM pg_class WHERE relname = 'schema_migrations'")
    if (!table) return []
    const rows = await rowsIn<{ name: string }>(database, 'SELECT name FROM schema_migrations ORDER BY version')
    return rows.map(({ name }) => name)
  }
  const start = () =>
    spawn(process.execPath, [MAIN, '-c', config, 'db', 'migrate'], { stdio: ['ignore', 'ignore', 'pipe'] })

  /** @returns the first migration that it said was applied; undefined when it ended before */
  async function killAfterOne(): Promise<string | undefined> {
    const child = start()
    for await (const line of createInterface({ input: child.stderr })) {
      const name = /^applied (\S+) in/.exec(line)?.[1]
      if (name === undefined) continue
      await kill(child)
      return name
    }
    return undefined
  }

  async function kill(child: ChildProcessByStdio<null, null, Readable>): Promise<void> {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  /** Ends it while an index that it builds is not valid; PostgreSQL notices, as after a crash of its own. */
  const killWithin = () =>
    withQuery(database.connection, async (query) => {
      await query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await query('SELECT 1')
      const child = start()
      const [{ pid }] = await until('an index that is not valid', async () => {
        const rows = await rowsIn<{ pid: number }>(
          database,
          `SELECT a.pid FROM pg_stat_activity a, pg_index i
            WHERE NOT i.indisvalid AND a.datname = current_database() AND a.query ~ '^CREATE .*INDEX CONCURRENTLY' AND a.state = 'active'`,
        )
        return rows.length > 0 && (rows as [{ pid: number }])
      })
      await kill(child)
      await rowsIn(database, 'SELECT pg_terminate_backend($1)', [pid])
      await query('ROLLBACK')
    })

  test('after each: it said what is there, and the next run goes on from there', async (t) => {
    let within = 0
    for (;;) {
      const there = await applied()
      assert.deepEqual(there, MIGRATIONS.slice(0, there.length))
      const next = MIGRATIONS[there.length]
      if (next === undefined) break
      if (buildsIndex(next)) {
        await killWithin()
        within += 1
        assert.deepEqual(await applied(), there, `${next} is not taken for done`)
        assert.notDeepEqual(await rowsIn(database, 'SELECT FROM pg_index WHERE NOT indisvalid'), [])
      }
      const said = await killAfterOne()
      const now = await applied()
      assert.ok(said === undefined ? now.length === MIGRATIONS.length : now.includes(said), `${said} was said, ${now}`)
      const { out } = await runWith(config, 'db', 'status')
      assert.deepEqual(
        [...out.matchAll(/^ {2}applied {2}(\S+)$/gm)].map(([, name]) => name),
        now,
      )
      assert.equal(/^the schema is current$/m.test(out), now.length === MIGRATIONS.length)
    }
    t.diagnostic(`${within} within a build of an index`)
    assert.ok(within > 0)
  })

  test('the schema is that of one that was migrated at once', async () => {
    const { code, out, complaint } = await runWith(config, 'db', 'migrate')
    assert.deepEqual([code, out], [0, 'nothing to do: the schema is current\n'], complaint)
    const other = await testDatabase()
    try {
      assert.deepEqual(await rowsIn(database, SCHEMA), await rowsIn(other, SCHEMA))
    } finally {
      await other.drop()
    }
  })
})
