/** The slow clock, and times that were written while a clock was ahead. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { makeNonceKey } from '../../src/services/stored-nonces.ts'
import { createClockStore, slowNow } from '../../src/store/clock-store.ts'
import { createNonceStore } from '../../src/store/nonce-store.ts'
import { jumped, useStores } from './support.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const store = useStores()
beforeEach(() =>
  store.sql(
    'TRUNCATE slow_clock, event_deliveries, backend_revocations, upstream_renewals, cleanup_progress, admin_login_limits, admin_sessions',
  ),
)

const now = async () => (await store.sql<{ now: Date }>('SELECT now()'))[0]!.now
/** By how many days the time of deletions is behind the clock of the database. */
const daysBehind = async () =>
  Math.round(((await now()).getTime() - (await slowNow(store.db)).getTime()) / (DAY_MS / 100)) / 100 + 0

describe('the slow clock', () => {
  test('is the clock of the database before a service has run', async () => {
    assert.equal(await daysBehind(), 0)
  })

  test('begins at the clock of the database, and goes with it', async () => {
    const clock = createClockStore(store.db)
    assert.equal(await clock.advance(0), 0)
    await store.sql("UPDATE slow_clock SET at = at - interval '10 s'")
    assert.ok((await clock.advance(10)) < 1)
    assert.equal(await daysBehind(), 0)
  })

  test('goes by twice what has passed, wherever the clock of the database has jumped', async () => {
    const clock = createClockStore(store.db)
    await jumped(store, 400)
    const behind = await clock.advance(40)
    assert.ok(Math.abs(behind - (400 * 86_400 - 80)) < 10, String(behind))
    assert.ok((await daysBehind()) > 399.9)
  })

  test('goes no faster where several instances have their rounds', async () => {
    const clocks = Array.from({ length: 5 }, () => createClockStore(store.db))
    await jumped(store, 400)
    for (const clock of clocks) await clock.advance(0)
    let behind = 0
    for (let round = 0; round < 10; round++) for (const clock of clocks) behind = await clock.advance(10)
    const gained = 400 * 86_400 - behind
    assert.ok(gained > 190 && gained < 210, `${gained} s in 100 s`)
  })

  test('falls back as slowly, and what is deleted is never ahead of the clock of the database', async () => {
    const clock = createClockStore(store.db)
    await jumped(store, -400)
    assert.equal(await daysBehind(), 0)
    assert.ok(Math.abs((await clock.advance(40)) + (400 * 86_400 - 80)) < 10)
  })
})

describe('what was written while a clock was 400 days ahead', () => {
  const AHEAD = "now() + interval '400 days'"
  const UUID = 'gen_random_uuid()'
  const ROWS: readonly (readonly [table: string, column: string, values: string])[] = [
    [
      'event_deliveries',
      'due_at',
      `(consumer, event_id, kind, subject, occurred_at, data, attempts, due_at) VALUES ('clock', ${UUID}, 'alarm', 'x', now(), '{}', 1, $due)`,
    ],
    [
      'backend_revocations',
      'due_at',
      `(certificate_id, backend, der, reason, due_at) VALUES (${UUID}, 'external', '', 0, $due)`,
    ],
    ['upstream_renewals', 'due_at', `(certificate_id, backend, due_at) VALUES (${UUID}, 'external', $due)`],
    [
      'admin_login_limits',
      'locked_until',
      `(subject, failures, window_began_at, locked_until) VALUES ('username x', 5, now(), $due)`,
    ],
    [
      'admin_sessions',
      'expires_at',
      `(id, user_id, ip_address, methods, expires_at) VALUES (${UUID}, (SELECT id FROM admin_users), '192.0.2.1', '{password}', $due)`,
    ],
  ]
  for (const [table, column, values] of ROWS)
    test(`${table}.${column} is due once it is right`, async () => {
      await store.sql(
        "INSERT INTO event_consumers (name, kinds, holder_kinds) VALUES ('clock', '{}', '{}') ON CONFLICT DO NOTHING",
      )
      await store.sql(
        `INSERT INTO admin_users (id, username, email, role, password_hash)
         SELECT ${UUID}, 'clock', 'clock@example.com', 'admin', '' WHERE NOT EXISTS (SELECT FROM admin_users)`,
      )
      await store.sql(`INSERT INTO ${table} ${values.replace('$due', AHEAD)}`)
      assert.equal(await createClockStore(store.db).endLongWaits(), 1)
      assert.deepEqual(await store.sql(`SELECT FROM ${table} WHERE ${column} <= now()`), [{}])
    })

  test('a key of nonces is replaced once it is right', async () => {
    const nonces = createNonceStore(store.db)
    await nonces.renew(makeNonceKey, 65)
    assert.equal(await nonces.renew(makeNonceKey, 65), false)
    await store.sql(`UPDATE nonce_epochs SET made_at = ${AHEAD}, active_from = ${AHEAD}`)
    assert.equal(await nonces.renew(makeNonceKey, 65), true)
  })

  test('what waits no longer than it may goes on waiting', async () => {
    await store.sql(
      `INSERT INTO upstream_renewals (certificate_id, backend, due_at) VALUES (${UUID}, 'external', now() + interval '1 day')`,
    )
    assert.equal(await createClockStore(store.db).endLongWaits(), 0)
  })
})
