/** What was committed is on disk, whatever the role, the database or the server says of `synchronous_commit`. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { z } from 'zod/v4'
import { openDatabase } from '../../src/store/database.ts'
import { durabilityWarnings } from '../../src/store/session.ts'
import { openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { each } from '../support/each.ts'
import { settingsFor } from './support.ts'

const SHOW = { name: '', text: "SELECT current_setting('synchronous_commit') AS is" }
const SHOW_NAMED = { name: 'show-synchronous-commit', text: SHOW.text }

describe('synchronous_commit', () => {
  let database: TestDatabase
  before(async () => {
    database = await testDatabase()
  })
  after(() => database.drop())

  /** As an operator does, for all who connect to the database. */
  async function setForDatabase(value: string): Promise<void> {
    const client = new pg.Client(database.connection)
    await client.connect()
    await client.query(`ALTER DATABASE ${database.connection.database} SET synchronous_commit = ${value}`)
    await client.end()
  }

  /** Through slonik, twice on one connection. */
  async function seenChecked(): Promise<unknown[]> {
    const pool = await openCheckedDatabase(settingsFor(database.connection, 1))
    const show = sql.type(
      z.object({ is: z.string(), pid: z.int() }),
    )`SELECT current_setting('synchronous_commit') AS is, pg_backend_pid() AS pid`
    try {
      const first = await pool.one(show)
      const second = await pool.transaction((tx) => tx.one(show))
      assert.equal(first.pid, second.pid)
      return [first.is, second.is]
    } finally {
      await pool.end()
    }
  }

  async function seen() {
    const db = openDatabase(settingsFor(database.connection), () => undefined)
    try {
      return {
        query: await db.query<{ is: string }>(SHOW, []),
        pipeline: await db.pipeline.run<{ is: string }>(SHOW_NAMED, []),
        transaction: await db.transaction((tx) => tx.query<{ is: string }>(SHOW, [])),
        warnings: await durabilityWarnings(db),
      }
    } finally {
      await db.close()
    }
  }

  for (const [given, expected] of [
    ['off', 'local'],
    ['local', 'local'],
    ['remote_write', 'remote_write'],
    ['on', 'on'],
    ['remote_apply', 'remote_apply'],
  ] as const) {
    test(`where it is ${given}, every statement of the service runs with ${expected}`, async () => {
      await setForDatabase(given)
      const { query, pipeline, transaction, warnings } = await seen()
      const is = [{ is: expected }]
      assert.deepEqual([query, pipeline, transaction], [is, is, is])
      assert.equal(
        warnings.some((text) => text.startsWith('synchronous_commit is off')),
        given === 'off',
      )
      assert.deepEqual(await seenChecked(), [expected, expected])
    })
  }

  test('on several connections at once, each is set before its first statement', async () => {
    await setForDatabase('off')
    const db = openDatabase(settingsFor(database.connection), () => undefined)
    try {
      const text = "SELECT current_setting('synchronous_commit') AS is, pg_backend_pid() AS pid FROM pg_sleep(0.5)"
      const rows = await Promise.all([1, 2].map(() => db.query<{ is: string; pid: number }>({ name: '', text }, [])))
      assert.deepEqual(each(rows.flat(), 'is'), ['local', 'local'])
      assert.equal(new Set(rows.flat().map(({ pid }) => pid)).size, 2)
    } finally {
      await db.close()
    }
  })

  test('through slonik too, each of several connections is set, and once', async () => {
    await setForDatabase('off')
    const pool = await openCheckedDatabase(settingsFor(database.connection, 2))
    const show = sql.type(z.object({ is: z.string(), pid: z.int() }))`
      SELECT current_setting('synchronous_commit') AS is, pg_backend_pid() AS pid FROM pg_sleep(0.5)`
    try {
      const rows = await Promise.all([pool.one(show), pool.one(show)])
      assert.deepEqual(each(rows, 'is'), ['local', 'local'])
      assert.equal(new Set(rows.map(({ pid }) => pid)).size, 2)
      // What a session sets stands until it ends: nothing sets it a second time.
      await pool.query(sql.unsafe`SET synchronous_commit = 'off'`)
      const later = await Promise.all([pool.one(show), pool.one(show)])
      assert.deepEqual(later.map(({ is }) => is).toSorted(), ['local', 'off'])
    } finally {
      await pool.end()
    }
  })

  test('a server without fsync is told', async () => {
    // The server of the tests, whose data is thrown away.
    assert.match((await seen()).warnings.join('\n'), /^fsync is off/m)
  })
})
