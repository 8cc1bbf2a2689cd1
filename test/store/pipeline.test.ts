/** Groups of hot statements: one transaction when all goes well, each for itself when one fails, and values as `pg` has them. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import fc from 'fast-check'
import {
  type Database,
  isUnavailable,
  isWorthSplitting,
  openDatabase,
  type Statement,
} from '../../src/store/database.ts'
import { anyCharacter } from '../support/any-character.ts'
import { forAllAsync } from '../support/property-runs.ts'
import { until as untilFact } from '../support/until.ts'
import { useStores } from './support.ts'

/** Of statements that run too long; none of the others may meet it. */
const STATEMENT_TIMEOUT_MS = 1_000

describe('pipeline', () => {
  const store = useStores(async () => {
    await db.close()
    await impatient.close()
  })
  let db: Database
  let impatient: Database
  before(async () => {
    db = openDatabase(store.settings, () => undefined)
    impatient = openDatabase({ ...store.settings, statementTimeoutMs: STATEMENT_TIMEOUT_MS }, () => undefined)
    await store.sql('CREATE TABLE kept (n integer PRIMARY KEY)')
  })

  const KEEP: Statement = { name: 'keep', text: 'INSERT INTO kept SELECT * FROM unnest($1::integer[]) RETURNING n' }
  const DIVIDE: Statement = { name: 'divide', text: 'SELECT 1 / $1::integer AS quotient' }
  const SLEEP: Statement = { name: 'sleep', text: 'SELECT pg_sleep($1::float8)' }
  const LOCK: Statement = { name: 'lock', text: 'SELECT pg_advisory_xact_lock(7)' }
  /** Waits for the lock. */
  const WAIT: Statement = { name: 'wait', text: 'SELECT pg_advisory_xact_lock_shared($1::bigint)' }
  const END: Statement = { name: 'end', text: 'SELECT pg_terminate_backend(pg_backend_pid()), $1::integer' }
  const transactionOf = (name: string): Statement => ({ name, text: 'SELECT pg_current_xact_id()::text AS id' })
  const kept = async () => (await store.sql<{ n: number }>('SELECT n FROM kept ORDER BY n')).map(({ n }) => n)
  const codeOf = (result: PromiseSettledResult<unknown> | undefined) =>
    result?.status === 'rejected' ? (result.reason as { code?: string }).code : result?.status

  /** Runs `work` while another session has the lock. */
  async function whileLocked(work: () => Promise<void>): Promise<void> {
    const holder = openDatabase(store.settings, () => undefined)
    try {
      await holder.transaction(async (tx) => {
        await tx.query(LOCK, [])
        await work()
      })
    } finally {
      await holder.close()
    }
  }

  const until = (isSo: () => Promise<boolean>) => untilFact('a fact about sessions', isSo)
  const untilWaiting = (sessions: number) =>
    until(async () => {
      const [row] = await store.sql<{ n: number }>(
        "SELECT count(*)::integer AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      )
      return (row?.n ?? 0) >= sessions
    })

  test('what is wanted in one turn of the event loop is one transaction; what comes later is another', async () => {
    const [a, b] = await Promise.all(['a', 'b'].map((name) => db.pipeline.run<{ id: string }>(transactionOf(name), [])))
    assert.deepEqual(a, b)
    const [c] = await db.pipeline.run<{ id: string }>(transactionOf('a'), [])
    assert.notDeepEqual(a?.[0], c)
  })

  test('whoever waits for a free connection is asked in time to join the group', async () => {
    const asked = new Promise<{ id: string }[]>((resolve, reject) =>
      db.pipeline.whenFree(() => db.pipeline.run<{ id: string }>(transactionOf('a'), []).then(resolve, reject)),
    )
    assert.deepEqual(await asked, await Promise.race([db.pipeline.run(transactionOf('b'), []), asked]))
  })

  test('a statement that fails leaves those beside it as they would be without it', async () => {
    const results = await Promise.allSettled([
      db.pipeline.run(KEEP, [[1, 2]]),
      db.pipeline.run(DIVIDE, [0]),
      db.pipeline.run(DIVIDE, [1]),
      db.pipeline.run(KEEP, [[3]]),
      db.pipeline.run(KEEP, [[1]]),
    ])
    assert.deepEqual(results.map(codeOf), ['fulfilled', '22012', 'fulfilled', 'fulfilled', '23505'])
    assert.deepEqual(await kept(), [1, 2, 3])
  })

  test('a statement whose columns a migration has changed is prepared again, alone, in a group and in a transaction', async () => {
    const ALL: Statement = { name: 'all', text: 'SELECT * FROM grown WHERE $1::boolean' }
    const columns = async () => {
      const alone = await db.pipeline.run<object>(ALL, [true])
      const [beside] = await Promise.all([db.pipeline.run<object>(ALL, [true]), db.pipeline.run(DIVIDE, [1])])
      const queried = await db.query<object>(ALL, [true])
      const within = await db.transaction((tx) => tx.query<object>(ALL, [true]))
      return [alone, beside, queried, within].map((rows) => Object.keys(rows?.[0] ?? {}).length)
    }
    await store.sql('CREATE TABLE grown AS SELECT 1 AS a')
    assert.deepEqual(await columns(), [1, 1, 1, 1])
    await store.sql('ALTER TABLE grown ADD COLUMN b text')
    const beside = await Promise.all([db.pipeline.run<object>(ALL, [true]), db.pipeline.run(DIVIDE, [1])])
    assert.equal(Object.keys(beside[0][0] ?? {}).length, 2)
    await store.sql('ALTER TABLE grown ADD COLUMN c text')
    assert.deepEqual(await columns(), [3, 3, 3, 3])
    await store.sql('ALTER TABLE grown ADD COLUMN d text')
    assert.equal((await db.transaction((tx) => tx.query<object>(ALL, [true]))).length, 1)
    await store.sql('ALTER TABLE grown ADD COLUMN e text')
    assert.equal((await db.query<object>(ALL, [true])).length, 1)
  })

  test('a statement that runs too long fails alone', async () => {
    const results = await Promise.allSettled([impatient.pipeline.run(SLEEP, [60]), impatient.pipeline.run(KEEP, [[4]])])
    assert.deepEqual(results.map(codeOf), ['57014', 'fulfilled'])
    assert.ok((await kept()).includes(4))
  })

  test('a statement that runs too long is the one that is refused, also behind one that could not be sent', async () => {
    const results = await Promise.allSettled([
      impatient.pipeline.run(DIVIDE, [2 ** 31]),
      impatient.pipeline.run(KEEP, [[5]]),
      impatient.pipeline.run(SLEEP, [60]),
    ])
    assert.deepEqual(results.slice(1).map(codeOf), ['fulfilled', '57014'])
    assert.equal(results[0]?.status, 'rejected')
  })

  test('bytes come as bytes, whatever way of writing them the database prefers', async () => {
    await store.sql(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database()); END $$`,
    )
    const other = openDatabase(store.settings, () => undefined)
    const ECHO: Statement = { name: 'echo-bytes', text: 'SELECT $1::bytea AS raw' }
    const raw = Buffer.from([0, 92, 120, 255])
    assert.deepEqual(await other.pipeline.run(ECHO, [raw]), [{ raw }])
    await other.close()
  })

  test('a lost connection fails its group as unavailable, and the next group has another', async () => {
    const results = await Promise.allSettled([db.pipeline.run(END, [1]), db.pipeline.run(DIVIDE, [1])])
    for (const result of results) assert.ok(result.status === 'rejected' && isUnavailable(result.reason))
    assert.deepEqual(await db.pipeline.run(DIVIDE, [1]), [{ quotient: 1 }])
  })

  test('a group that is slow holds nobody up', async () => {
    let waiting: Promise<unknown> | undefined
    await whileLocked(async () => {
      waiting = Promise.all([0, 0, 0].map(() => db.pipeline.run(WAIT, [7])))
      await untilWaiting(1)
      assert.deepEqual(await db.pipeline.run(DIVIDE, [1]), [{ quotient: 1 }])
    })
    await waiting
  })

  test('a pool whose connections are all stuck says so, and that somebody waits', async () => {
    const small = openDatabase({ ...store.settings, maxConnections: 2 }, () => undefined)
    const stuck: Promise<unknown>[] = []
    await whileLocked(async () => {
      for (const sessions of [1, 2]) {
        stuck.push(small.pipeline.run(WAIT, [7]))
        await untilWaiting(sessions)
      }
      stuck.push(small.pipeline.run(WAIT, [7]))
      await until(async () => small.pressure().available === 0)
      assert.deepEqual(small.pressure(), { max: 2, size: 2, available: 0, waiting: 1 })
    })
    await Promise.all(stuck)
    await small.close()
  })

  test('a connection that is lost inside a transaction fails that transaction only', async () => {
    const lost = db.transaction((tx) => tx.query(END, [1]))
    await assert.rejects(lost, isUnavailable)
    assert.deepEqual(await db.query(DIVIDE, [1]), [{ quotient: 1 }])
  })

  test('a value that its type cannot hold fails alone, and is worth splitting a batch for', async () => {
    const ECHO: Statement = { name: 'echo', text: 'SELECT $1::uuid[] AS ids, $2::integer AS n' }
    const id = '0190f3c2-7c1e-7a3b-8d2f-0123456789ab'
    const results = await Promise.allSettled([
      db.pipeline.run(ECHO, [[id], 2 ** 31]),
      db.pipeline.run(ECHO, [[`${id.slice(1)}x`], 1]),
      db.pipeline.run(ECHO, [['1'], 1]),
      db.pipeline.run(ECHO, [[id], 1]),
    ])
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? result.value : isWorthSplitting(result.reason))),
      [true, true, true, [{ ids: [id], n: 1 }]],
    )
  })

  test('values of every type come back as they were given, and as pg reads them', async () => {
    const TYPES = ['uuid', 'text', 'bytea', 'jsonb', 'integer', 'bigint', 'float8', 'boolean', 'timestamptz'] as const
    const ECHO: Statement = {
      name: 'echo-all',
      text: `SELECT ${TYPES.map((type, i) => `$${i + 1}::${type}[] AS ${type}s`).join(', ')}, $${TYPES.length + 1}::text AS scalar,
                    ($9::timestamptz[])[1] AS first, ($4::jsonb[])[1] AS json, ($3::bytea[])[1] AS raw`,
    }
    const text = fc.string({ unit: anyCharacter, maxLength: 40 }).map((value) => value.replaceAll('\0', ''))
    const several = <T>(value: fc.Arbitrary<T>) => fc.array(fc.option(value), { maxLength: 5 })
    const values = fc.tuple(
      several(fc.uuid()),
      several(text),
      several(fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes))),
      several(fc.dictionary(fc.constantFrom('a', 'b'), text).map((value) => JSON.stringify(value))),
      several(fc.integer()),
      several(fc.maxSafeInteger()),
      // pg sends -0 as 0.
      several(fc.double({ noNaN: true }).map((value) => value + 0)),
      several(fc.boolean()),
      several(fc.date({ min: new Date('1970-01-01'), max: new Date('9999-01-01'), noInvalidDate: true })),
      text,
    )
    await forAllAsync(60, values, async (given) => {
      const [row = {}] = await db.pipeline.run<Record<string, unknown>>(ECHO, given)
      const [uuids, texts, , jsonbs, integers, , doubles, booleans, dates, scalar] = given
      assert.deepEqual(row['uuids'], uuids)
      assert.deepEqual(row['texts'], texts)
      assert.deepEqual(row['integers'], integers)
      assert.deepEqual(row['float8s'], doubles)
      assert.deepEqual(row['booleans'], booleans)
      assert.deepEqual(row['timestamptzs'], dates)
      assert.deepEqual(row['scalar'], scalar)
      assert.deepEqual(row['first'], dates[0] ?? null)
      assert.deepEqual(row['json'], JSON.parse(jsonbs[0] ?? 'null'))
      assert.deepEqual(row['raw'], given[2][0] ?? null)
      assert.deepEqual(
        row['bigints'],
        given[5].map((value) => (value === null ? null : String(value))),
      )
    })
  })
})
