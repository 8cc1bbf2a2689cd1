/** Files that share a service empty its tables while it uses them. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyTables, rowsIn, testDatabase } from '../support/database.ts'
import { withQuery } from '../support/revoked.ts'
import { until } from '../support/until.ts'

test('who uses the tables in another order is not in the way, and has no deadlock', async (context) => {
  const database = await testDatabase()
  context.after(() => database.drop())
  const waiting = (mode: string) =>
    until(`a lock ${mode} is waited for`, async () => {
      const rows = await rowsIn(
        database,
        `SELECT FROM pg_locks WHERE NOT granted AND mode = $1
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
        [mode],
      )
      return rows.length > 0
    })
  await rowsIn(database, "INSERT INTO accounts (id, thumbprint, jwk) VALUES (gen_random_uuid(), 'one', '{}')")
  await withQuery(database.connection, async (query) => {
    await query('BEGIN')
    await query('SELECT FROM orders')
    const emptied = emptyTables(database, { kept: ['schema_migrations', 'admin_audit_%'], with: 'SELECT 1' })
    await waiting('AccessExclusiveLock')
    assert.equal((await query('SELECT FROM accounts')).length, 1)
    await query('COMMIT')
    await emptied
  })
  assert.deepEqual(await rowsIn(database, 'SELECT FROM accounts'), [])
})
