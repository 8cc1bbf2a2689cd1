/** Rate-limit counters that instances share: exact, all keys of a request or none, removed when they limit nothing. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { charged, fitting, paceOf } from '../../src/domain/rate-limit.ts'
import { createRateLimitStore } from '../../src/store/rate-limit-store.ts'
import { forAllAsync } from '../support/property-runs.ts'
import { answers, refusing, useStores } from './support.ts'

describe('rate limits in the database', () => {
  const fixture = useStores()
  /** Of two instances. */
  const stores = () => [createRateLimitStore(fixture.db), createRateLimitStore(fixture.otherDb)] as const
  /** An interval so long that nothing is earned back during a test. */
  const pace = (requests: number) => paceOf({ requests, windowSeconds: requests * 3600 })

  test('two instances that charge one key at once let exactly the limit through', async () => {
    const both = stores()
    const charges = Array.from({ length: 120 }, (_, i) =>
      (both[i % 2] as (typeof both)[0]).charge([{ key: 'shared', pace: pace(50) }]),
    )
    const passed = (await Promise.all(charges)).filter((exceeded) => exceeded === undefined)
    assert.equal(passed.length, 50)
  })

  test('a refusal names the key and the wait', async () => {
    const [store] = stores()
    const one = { key: 'single', pace: paceOf({ requests: 1, windowSeconds: 600 }) }
    assert.equal(await store.charge([one]), undefined)
    const exceeded = await store.charge([one])
    assert.equal(exceeded?.key, 'single')
    assert.ok(exceeded.wait > 590e6 && exceeded.wait <= 600e6, String(exceeded.wait))
  })

  test('what is given back can be charged again', async () => {
    const [store, other] = stores()
    const one = { key: 'given back', pace: pace(1) }
    const two = { key: 'given back too', pace: pace(1) }
    await store.charge([one, two])
    assert.equal((await other.charge([one]))?.key, 'given back')
    await store.giveBack([one, two])
    assert.equal(await other.charge([one, two]), undefined)
    assert.equal((await store.charge([one]))?.key, 'given back')
  })

  test('a request that one key refuses charges none of its other keys', async () => {
    const [store] = stores()
    const empty = { key: 'empty', pace: pace(1) }
    const other = { key: 'other', pace: pace(3) }
    await store.charge([empty])
    for (let i = 0; i < 5; i++) assert.equal((await store.charge([other, empty]))?.key, 'empty')
    const results = await Promise.all([1, 2, 3, 4].map(() => store.charge([other])))
    assert.deepEqual(
      results.map((exceeded) => exceeded?.key),
      [undefined, undefined, undefined, 'other'],
    )
  })

  // Injected: rows of counters are locked in one order, so a refund that is alone does not deadlock.
  test('a refund that fails concerns the request that was refused; the others are charged once and told so', async () => {
    const store = createRateLimitStore(
      refusing(fixture.db, (name) => (name === 'rate-limit-refund' ? '40P01' : undefined)),
    )
    const empty = { key: 'used up', pace: pace(1) }
    const other = { key: 'beside it', pace: pace(4) }
    await store.charge([empty])
    const results = await Promise.allSettled([
      store.charge([other, empty]),
      store.charge([other]),
      store.charge([other]),
    ])
    assert.deepEqual(answers(results), ['failed', undefined, undefined])
    assert.equal(await store.charge([other]), undefined)
    assert.equal((await store.charge([other]))?.key, 'beside it')
  })

  test('requests with the same keys in opposite orders on two instances do not deadlock', async () => {
    const both = stores()
    const keys = ['x', 'y', 'z'].map((key) => ({ key, pace: pace(1000) }))
    const work = Array.from({ length: 200 }, (_, i) =>
      (both[i % 2] as (typeof both)[0]).charge(i % 3 === 0 ? keys : keys.toReversed()),
    )
    for (const exceeded of await Promise.all(work)) assert.equal(exceeded, undefined)
  })

  test('the SQL of what passes agrees with the arithmetic of the domain', async () => {
    await forAllAsync(
      100,
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 1, max: 100_000 }),
      fc.integer({ min: -10_000_000_000, max: 10_000_000_000 }),
      async (requests, windowSeconds, ahead) => {
        const limit = paceOf({ requests, windowSeconds })
        const now = 1.7e15
        const [row] = await fixture.sql('SELECT rate_limit_fitting($1, $2, $3, $4)::integer AS n', [
          ...[now + ahead, limit.interval, limit.tolerance, now],
        ])
        assert.equal(row?.n, fitting(now + ahead, limit, now))
      },
    )
    assert.ok(charged(0, pace(1), 5) > 5)
  })

  describe('after a clock that was 400 days ahead', () => {
    const usedUp = (key: string) =>
      fixture.sql(
        `INSERT INTO rate_limits (key, tat, step, tolerance, granted)
         VALUES ($1, (extract(epoch FROM now() + interval '400 days') * 1000000)::bigint, 1000000, 59000000, 1)`,
        [key],
      )

    test('a key has everything back, once, and is limited from there on', async () => {
      const [store] = stores()
      await usedUp('jumped')
      const one = { key: 'jumped', pace: pace(2) }
      assert.deepEqual(
        [await store.charge([one]), await store.charge([one]), (await store.charge([one]))?.key],
        [undefined, undefined, 'jumped'],
      )
    })

    test('the sweep takes it, and leaves what its limit lets lie ahead', async () => {
      const [store] = stores()
      await usedUp('swept')
      const long = { key: 'long', pace: pace(100) }
      await Promise.all(Array.from({ length: 100 }, () => store.charge([long])))
      await store.sweep(7200)
      const keys = await fixture.sql<{ key: string }>("SELECT key FROM rate_limits WHERE key IN ('swept', 'long')")
      assert.deepEqual(keys, [{ key: 'long' }])
    })
  })

  test('the sweep removes what limits nothing any more and nothing else', async () => {
    const [store] = stores()
    await store.charge([{ key: 'young', pace: pace(5) }])
    await fixture.sql(
      `INSERT INTO rate_limits (key, tat, step, tolerance, granted)
       SELECT 'old ' || n, (extract(epoch FROM now()) * 1000000)::bigint - 4 * 3600000000, 1, 1, 1
         FROM generate_series(1, 1500) AS n`,
    )
    assert.equal(await store.sweep(7200), 1500)
    assert.equal((await fixture.sql("SELECT FROM rate_limits WHERE key = 'young'")).length, 1)
  })
})
