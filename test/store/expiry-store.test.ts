/** Expiry that really happens: the rows of overdue orders and authorizations say so. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { ORDER_EXPIRED } from '../../src/domain/states.ts'
import { type ExpiryLifetimes, expireOverdue } from '../../src/services/archive/retention.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { createExpiryStore, type ExpiryPage } from '../../src/store/expiry-store.ts'
import { aName, anAccount, anOrder, jumped, rekey, useStores } from './support.ts'

const HOUR_MS = 3_600_000
const LIFETIMES: ExpiryLifetimes = {
  orderLifetimeMs: HOUR_MS,
  authorizationLifetimeMs: 2 * HOUR_MS,
  preAuthorizationLifetimeMs: 3 * HOUR_MS,
}

const store = useStores()
let requester: Requester
beforeEach(async () => {
  await store.sql('TRUNCATE orders, authorizations, order_claims, cleanup_progress, slow_clock')
  ;({ requester } = await anAccount(store))
})

/** An order made this long ago, whose rows live as long as LIFETIMES says, but for `lives`. */
async function anOldOrder(ageMs: number, lives: { order?: number; authorization?: number } = {}): Promise<string> {
  const order = await anOrder(store, requester, {}, [aName()])
  const madeAt = Date.now() - ageMs
  const id = await rekey(store, 'orders', order.id, madeAt, lives.order ?? LIFETIMES.orderLifetimeMs)
  const [authorization] = order.authorizationIds as [string]
  const newId = await rekey(store, 'authorizations', authorization, madeAt, lives.authorization ?? 2 * HOUR_MS)
  await store.sql('UPDATE orders SET authorization_ids = ARRAY[$2::uuid] WHERE id = $1', [id, newId])
  await store.sql('UPDATE order_claims SET order_id = $2 WHERE order_id = $1', [order.id, id])
  return id
}

async function statusOf(table: string, id: string): Promise<string | undefined> {
  return (await store.sql<{ status: string }>(`SELECT status FROM ${table} WHERE id = $1`, [id]))[0]?.status
}

async function authorizationStatus(orderId: string): Promise<string | undefined> {
  const [row] = await store.sql<{ id: string }>('SELECT authorization_ids[1] AS id FROM orders WHERE id = $1', [
    orderId,
  ])
  return statusOf('authorizations', row?.id ?? '')
}

const seen: (ExpiryPage & { kind: string })[] = []
function round(lifetimes = LIFETIMES): Promise<number> {
  seen.length = 0
  return expireOverdue({
    store: createExpiryStore(store.db),
    lifetimes,
    onExpired: (kind, page) => seen.push({ kind, ...page }),
    isStopping: () => false,
  })
}

describe('a round of expiry', () => {
  test('marks an overdue order and leaves a younger one alone', async () => {
    const [old, young] = [await anOldOrder(HOUR_MS + 10_000), await anOldOrder(HOUR_MS / 2)]
    assert.equal(await round(), 1)
    assert.equal(await statusOf('orders', old), 'invalid')
    assert.equal(await statusOf('orders', young), 'open')
    const [row] = await store.sql<{ error: object }>('SELECT error FROM orders WHERE id = $1', [old])
    assert.deepEqual(row?.error, ORDER_EXPIRED)
    assert.equal(await authorizationStatus(old), 'pending', 'its authorization lives on')
  })

  test('marks nothing that has expired by clocks that jumped alone', async () => {
    const id = await anOldOrder(3 * HOUR_MS)
    await jumped(store, 400)
    assert.equal(await round(), 0)
    assert.equal(await statusOf('orders', id), 'open')
    assert.equal(await authorizationStatus(id), 'pending')
  })

  test('marks overdue authorizations, and counts the challenges that nobody met', async () => {
    const id = await anOldOrder(2 * HOUR_MS + 10_000)
    await round()
    assert.equal(await authorizationStatus(id), 'expired')
    assert.deepEqual(
      seen.map(({ kind, expired, challenges }) => ({ kind, expired, challenges })),
      [
        { kind: 'order', expired: 1, challenges: 0 },
        { kind: 'authorization', expired: 1, challenges: 2 },
      ],
    )
  })

  test('gives up the claim of the order', async () => {
    const id = await anOldOrder(HOUR_MS + 10_000)
    assert.equal((await store.sql('SELECT FROM order_claims WHERE order_id = $1', [id])).length, 1)
    await round()
    assert.equal((await store.sql('SELECT FROM order_claims WHERE order_id = $1', [id])).length, 0)
  })

  for (const status of ['processing', 'valid', 'invalid']) {
    test(`passes by an order that is ${status}`, async () => {
      const id = await anOldOrder(HOUR_MS + 10_000)
      await store.sql('UPDATE orders SET status = $2 WHERE id = $1', [id, status])
      assert.equal(await round(), 0)
      assert.equal(await statusOf('orders', id), status)
    })
  }

  test('meets a pre-authorization that outlives the authorizations of orders when its own time has come', async () => {
    const id = await anOldOrder(2 * HOUR_MS + 10_000, { authorization: 3 * HOUR_MS })
    await round()
    assert.equal(await authorizationStatus(id), 'pending')
    await store.sql("UPDATE authorizations SET expires_at = now() - interval '1 s'")
    await round()
    assert.equal(await authorizationStatus(id), 'pending', 'its key is too young for the longer task')
    await round({ ...LIFETIMES, preAuthorizationLifetimeMs: 2.001 * HOUR_MS })
    assert.equal(await authorizationStatus(id), 'expired')
  })

  test('waits for an order that was made under a longer lifetime, and then takes it and what is behind it', async () => {
    const long = await anOldOrder(HOUR_MS + 20_000, { order: 5 * HOUR_MS })
    const behind = await anOldOrder(HOUR_MS + 10_000)
    await round()
    assert.deepEqual([await statusOf('orders', long), await statusOf('orders', behind)], ['open', 'invalid'])
    await store.sql("UPDATE orders SET expires_at = now() - interval '1 s' WHERE id = $1", [long])
    assert.equal(await round(), 1)
    assert.equal(await statusOf('orders', long), 'invalid')
  })

  test('goes on page by page, and at most once over each row', async () => {
    const time = (Date.now() - 2 * HOUR_MS - 60_000).toString(16).padStart(12, '0')
    await store.sql(
      `INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at)
       SELECT ($1 || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $2, '[]', '{}', 'default', now() - interval '1 hour'
         FROM generate_series(1, 2500) n`,
      [`${time.slice(0, 8)}-${time.slice(8)}`, requester.accountId],
    )
    assert.equal(await round(), 2500)
    assert.deepEqual(
      seen.map(({ expired, full }) => ({ expired, full })),
      [
        { expired: 1000, full: true },
        { expired: 1000, full: true },
        { expired: 500, full: false },
      ],
    )
    assert.equal(await round(), 0)
  })

  test('by two instances at once marks each row once', async () => {
    for (let i = 0; i < 20; i++) await anOldOrder(HOUR_MS + 10_000)
    assert.equal(
      (await Promise.all([round(), round()])).reduce((sum, n) => sum + n),
      20,
    )
  })
})
