/** What a migration locks, and what no migration after the first release may do. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  headerOf,
  listMigrations,
  MIGRATIONS_DIR,
  readMigration,
  statementsIn,
} from '../../../src/store/schema/migration-files.ts'
import { effectsOf, faultsOf } from '../../../src/store/schema/migration-plan.ts'
import { FIRST_RELEASE } from '../../../src/store/schema/schema-state.ts'

const file = (sql: string) => ({ version: 9001, name: '9001_test.sql', sql, ...headerOf(sql) })
const locksOf = (sql: string) =>
  effectsOf(file(sql)).map(({ table, lock, lasts }) => [table ?? '', lock ?? 'none', lasts].join(', '))

describe('migrations', () => {
  test('those after the first release keep nobody waiting, and the release before can live with them', async () => {
    const known = (await listMigrations()).filter(({ version }) => version > FIRST_RELEASE)
    const files = await Promise.all(known.map((migration) => readMigration(MIGRATIONS_DIR, migration)))
    assert.deepEqual(files.flatMap(faultsOf), [])
  })

  test('a header says what kind of file it is; comments below the first statement say nothing', () => {
    const { isConcurrent, contract, goingBack } = headerOf(
      '-- An index.\n-- concurrently\n-- contract: 0011\n-- going back: lists are slow.\nSELECT 1;',
    )
    assert.deepEqual(
      { isConcurrent, contract, goingBack },
      { isConcurrent: true, contract: 11, goingBack: 'lists are slow.' },
    )
    assert.equal(headerOf('-- About concurrently\nSELECT 1;\n-- concurrently').isConcurrent, false)
  })

  test('strings, names, bodies of functions and comments do not end a statement', () => {
    const sql = `-- a; b
      INSERT INTO t VALUES ('a;''b'); /* c; d */ CREATE FUNCTION f() AS $$ BEGIN; END; $$;
      CREATE FUNCTION g() AS $body$ SELECT '$$'; $body$; COMMENT ON TABLE "x;y" IS '-- no comment';`
    assert.deepEqual(statementsIn(sql), [
      "INSERT INTO t VALUES ('a;''b')",
      'CREATE FUNCTION f() AS $$ BEGIN; END; $$',
      "CREATE FUNCTION g() AS $body$ SELECT '$$'; $body$",
      `COMMENT ON TABLE "x;y" IS '-- no comment'`,
    ])
  })

  const LOCKS: Readonly<Record<string, string[]>> = {
    'CREATE TABLE t (id integer PRIMARY KEY)': [', none, moment'],
    'CREATE TABLE t (id uuid REFERENCES accounts)': [', none, moment', 'accounts, SHARE ROW EXCLUSIVE, moment'],
    'CREATE TABLE t (id integer); CREATE INDEX i ON t (id); ALTER TABLE t ADD PRIMARY KEY (id)': [', none, moment'],
    'ALTER TABLE accounts ADD COLUMN a text, ADD b integer NOT NULL DEFAULT 0': [
      'accounts, ACCESS EXCLUSIVE, moment',
      'accounts, ACCESS EXCLUSIVE, moment',
    ],
    'ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (account_id) REFERENCES accounts NOT VALID': [
      'orders, SHARE ROW EXCLUSIVE, moment',
      'accounts, SHARE ROW EXCLUSIVE, moment',
    ],
    '-- concurrently\nALTER TABLE orders VALIDATE CONSTRAINT f': ['orders, SHARE UPDATE EXCLUSIVE, scan'],
    '-- concurrently\nCREATE UNIQUE INDEX CONCURRENTLY i ON orders (id)': ['orders, SHARE UPDATE EXCLUSIVE, build'],
    'CREATE TRIGGER t AFTER UPDATE ON certificates FOR EACH ROW EXECUTE FUNCTION f()': [
      'certificates, SHARE ROW EXCLUSIVE, moment',
    ],
    "INSERT INTO server_settings (key, value) VALUES ('a', '{}')": ['server_settings, ROW EXCLUSIVE, moment'],
  }
  for (const [sql, locks] of Object.entries(LOCKS))
    test(`is allowed: ${sql}`, () => {
      assert.deepEqual(locksOf(sql), locks)
      assert.deepEqual(faultsOf(file(sql)), [])
    })

  const REFUSED: Readonly<Record<string, RegExp>> = {
    'VACUUM accounts': /is not known to db migrate --plan/,
    'ALTER TABLE accounts OWNER TO somebody': /is not known to db migrate --plan/,
    'CREATE INDEX i ON accounts (id)': /build it concurrently/,
    'CREATE INDEX CONCURRENTLY i ON accounts (id)': /put it into a concurrent file/,
    'DROP INDEX accounts_not_valid': /drop it concurrently/,
    'ALTER TABLE orders VALIDATE CONSTRAINT f': /put it into a concurrent file/,
    "ALTER TABLE orders ADD CONSTRAINT c CHECK (status <> '')": /NOT VALID/,
    'ALTER TABLE orders ADD UNIQUE (certificate_id)': /NOT VALID, or by an index/,
    'ALTER TABLE orders ALTER COLUMN profile TYPE varchar(10)': /writes all rows again/,
    'ALTER TABLE orders ALTER profile SET NOT NULL': /validate a CHECK/,
    'ALTER TABLE orders ADD COLUMN a uuid DEFAULT gen_random_uuid()': /not a constant/,
    "ALTER TABLE orders ADD COLUMN a timestamptz DEFAULT now() + interval '1 day'": /not a constant/,
    'ALTER TABLE orders ADD COLUMN a text NOT NULL': /without a default/,
    'ALTER TABLE orders ADD COLUMN a uuid REFERENCES accounts': /NOT VALID/,
    'ALTER TABLE orders ADD COLUMN a bigserial': /writes all rows again/,
    'ALTER TABLE orders ADD COLUMN a integer GENERATED ALWAYS AS (1) STORED': /writes all rows again/,
    'ALTER TABLE orders ADD COLUMN a integer UNIQUE': /builds an index/,
    'ALTER TABLE orders RENAME COLUMN profile TO p': /takes a name away/,
    'ALTER TABLE orders DROP COLUMN profile': /Expand, then contract/,
    'DROP TABLE orders': /Expand, then contract/,
    'DROP TRIGGER t ON certificates': /Expand, then contract/,
    'UPDATE orders SET profile = $$a$$': /as many rows as a large table/,
    'INSERT INTO t SELECT id FROM certificates': /as many rows as a large table/,
    '-- contract: 9001\nDROP TABLE t': /has to name an older migration/,
    '-- contract: soon\nDROP TABLE t': /has to name an older migration/,
  }
  for (const [sql, fault] of Object.entries(REFUSED))
    test(`is refused: ${sql.replaceAll('\n', ' ')}`, () => assert.match(faultsOf(file(sql)).join('\n'), fault))

  test('what the release before may use goes in a contract', () =>
    assert.deepEqual(faultsOf(file('-- contract: 0011\nALTER TABLE orders DROP COLUMN profile')), []))
})
