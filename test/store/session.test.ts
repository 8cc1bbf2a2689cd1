/** What every session of the service has, however it was opened, and what becomes of work that loses a deadlock. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { z } from 'zod/v4'
import { type Database, type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { openSession } from '../../src/store/session.ts'
import { openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { settingsFor } from './support.ts'

const NAMES = ['jit', 'statement_timeout', 'idle_in_transaction_session_timeout']
const EXPECTED = ['off', '30s', '30s']
const TEXT = `SELECT ${NAMES.map((name) => `current_setting('${name}') AS ${name}`).join(', ')}`
const valuesIn = (row: object | undefined) => NAMES.map((name) => Reflect.get(row ?? {}, name))

/** Every way in which the service opens connections. */
const WAYS: Record<string, (settings: DatabaseSettings) => Promise<object | undefined>> = {
  async 'the pool'(settings) {
    const db = openDatabase(settings, assert.fail)
    return (await db.query<object>({ name: 'settings', text: TEXT }, []).finally(() => db.close()))[0]
  },
  async slonik(settings) {
    const pool = await openCheckedDatabase(settings)
    return pool.one({ ...sql.type(z.looseObject({}))``, sql: TEXT }).finally(() => pool.end())
  },
  async 'a connection of its own'(settings) {
    const client = await openSession(settings)
    return (await client.query(TEXT).finally(() => client.end())).rows[0]
  },
}

describe('a session', () => {
  let database: TestDatabase
  let operator: pg.Client
  let db: Database
  before(async () => {
    database = await testDatabase()
    operator = new pg.Client(database.connection)
    await operator.connect()
    const name = database.connection.database
    await operator.query(`ALTER DATABASE ${name} SET jit = on`)
    await operator.query(`
      CREATE SEQUENCE tries;
      CREATE FUNCTION lose_twice(code text) RETURNS integer LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('tries') % 3 <> 0 THEN RAISE 'lost' USING ERRCODE = code; END IF;
          RETURN 1;
        END $$`)
    db = openDatabase(settingsFor(database.connection), assert.fail)
  })
  after(async () => {
    await db.close()
    await operator.end()
    await database.drop()
  })

  for (const [name, row] of Object.entries(WAYS))
    test(`of ${name} compiles no plan and has time limits, also where the operator has set others`, async () => {
      assert.deepEqual(valuesIn(await row(settingsFor(database.connection))), EXPECTED)
    })

  const lose = (code: string) => ({ name: `lose-${code}`, text: `SELECT lose_twice('${code}') AS won` })

  for (const code of ['40P01', '40001'])
    test(`that loses to others (${code}) repeats its work`, async () => {
      const won = [{ won: 1 }]
      assert.deepEqual(await db.query(lose(code), []), won)
      assert.deepEqual(await db.pipeline.run(lose(code), []), won)
      assert.deepEqual(await db.transaction((tx) => tx.query(lose(code), [])), won)
    })
})
