/** What every session of the service has, however it was opened, and what becomes of work that loses a deadlock. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { z } from 'zod/v4'
import { withFormerDatabase } from '../../src/import/former-database.ts'
import { type Database, type DatabaseSettings, openDatabase } from '../../src/store/database.ts'
import { openSession } from '../../src/store/session.ts'
import { openCheckedDatabase, sql } from '../../src/store/slonik.ts'
import { addressOf, type TestDatabase, testDatabase } from '../support/database.ts'
import { settingsFor } from './support.ts'

/** What an operator's database sets, and what a session of the service has. The server of the tests sets more of them. */
const SETTINGS: readonly (readonly [name: string, theirs: string, ours: string])[] = [
  ['DateStyle', 'German, DMY', 'ISO, YMD'],
  ['IntervalStyle', 'sql_standard', 'postgres'],
  ['TimeZone', 'Asia/Kathmandu', 'UTC'],
  ['array_nulls', 'off', 'on'],
  ['bytea_output', 'escape', 'hex'],
  ['extra_float_digits', '-4', '1'],
  ['standard_conforming_strings', 'off', 'on'],
  ['transform_null_equals', 'on', 'off'],
  ['client_encoding', 'LATIN1', 'UTF8'],
  ['default_transaction_isolation', 'serializable', 'read committed'],
  ['jit', 'on', 'off'],
  ['statement_timeout', '2h', '30s'],
  ['idle_in_transaction_session_timeout', '2h', '30s'],
  ['lock_timeout', '2h', '0'],
  ['idle_session_timeout', '2h', '0'],
  ['transaction_timeout', '2h', '0'],
]
const NAMES = SETTINGS.map(([name]) => name)
const EXPECTED = SETTINGS.map(([, , ours]) => ours)
const TEXT = `SELECT ${NAMES.map((name) => `current_setting('${name}', true) AS "${name}"`).join(', ')}`
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
    for (const [setting, theirs] of SETTINGS)
      await operator.query(`ALTER DATABASE ${name} SET ${setting} = '${theirs}'`)
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
    test(`of ${name} reads and writes text in one way, and has its own time limits, whatever the database sets`, async () => {
      assert.deepEqual(valuesIn(await row(settingsFor(database.connection))), EXPECTED)
    })

  for (const [what, options, said] of [
    ['another encoding', "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'", 'the encoding LATIN1'],
    [
      'a Turkish i',
      "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LOCALE 'C'",
      'the locale of a language whose small I is no i',
    ],
  ] as const)
    test(`does not begin on a database with ${what}, and the sentence has the command that makes another`, async () => {
      const name = `${database.connection.database}_other`
      await operator.query(`CREATE DATABASE ${name} TEMPLATE template0 ${options}`)
      try {
        await assert.rejects(
          openSession({ ...settingsFor(database.connection), database: name }),
          ({ message }: Error) => message.includes(`has ${said}; make one with: createdb --template=template0`),
        )
      } finally {
        await operator.query(`DROP DATABASE ${name}`)
      }
    })

  test('with the database of a former server reads its dates, whatever it sets', async () => {
    const from = addressOf(database.connection)
    const rows = await withFormerDatabase(from, async (former) => {
      const found: unknown[] = []
      for await (const row of former.rows("SELECT timestamptz '2026-11-29 12:00Z' AS at, '\\x00ff'::bytea AS octets"))
        found.push(row)
      return found
    })
    assert.deepEqual(rows, [{ at: new Date('2026-11-29T12:00:00Z'), octets: Buffer.from([0, 255]) }])
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
