/** Retention: what is over goes after its time, and nothing that anybody still needs. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { deleteOld, expireOverdue, type RetentionPolicy } from '../../src/services/archive/retention.ts'
import { uuidTime } from '../../src/shared/lib/uuid.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { createClockStore } from '../../src/store/clock-store.ts'
import { createExpiryStore } from '../../src/store/expiry-store.ts'
import { ALREADY_REPLACED } from '../../src/store/order-store.ts'
import { createRetentionStore } from '../../src/store/retention-store.ts'
import { renderCertId } from '../support/certificate-id.ts'
import { aCertificate, aName, aNewOrder, anAccount, anOrder, jumped, rekey, useStores } from './support.ts'

const DAY_MS = 86_400_000
const POLICY: RetentionPolicy = {
  invalidOrderAgeMs: 30 * DAY_MS,
  authorizationAgeMs: 30 * DAY_MS,
  invalidChallengeAgeMs: 30 * DAY_MS,
  orderLifetimeMs: 7 * DAY_MS,
  authorizationLifetimeMs: 14 * DAY_MS,
  pauseSeconds: 3600,
}

const store = useStores()
let requester: Requester
beforeEach(async () => {
  await store.sql(
    'TRUNCATE orders, authorizations, order_claims, cleanup_progress, replacements, certificates, slow_clock',
  )
  ;({ requester } = await anAccount(store))
})

/** An order made this long ago with one authorization, of these statuses. */
async function anOldOrder(ageDays: number, status: string, authorizationStatus: string) {
  const made = await anOrder(store, requester, {}, [aName()])
  const madeAt = Date.now() - ageDays * DAY_MS
  const order = await rekey(store, 'orders', made.id, madeAt, POLICY.orderLifetimeMs)
  const [first] = made.authorizationIds as [string]
  const authorization = await rekey(store, 'authorizations', first, madeAt, POLICY.authorizationLifetimeMs)
  await store.sql('UPDATE orders SET authorization_ids = ARRAY[$2::uuid], status = $3 WHERE id = $1', [
    order,
    authorization,
    status,
  ])
  await store.sql('UPDATE authorizations SET status = $2 WHERE id = $1', [authorization, authorizationStatus])
  return { order, authorization }
}

async function isThere(table: 'orders' | 'authorizations', id: string): Promise<boolean> {
  return (await store.sql(`SELECT FROM ${table} WHERE id = $1`, [id])).length === 1
}

const rests: number[] = []
function round(policy: Partial<RetentionPolicy> = {}, isStopping = () => false): Promise<number> {
  rests.length = 0
  return deleteOld({
    store: createRetentionStore(store.db),
    policy: { ...POLICY, pauseSeconds: 0, ...policy },
    onDeleted: () => undefined,
    isStopping,
    rest: async (ms) => void rests.push(ms),
  })
}

const expire = () =>
  expireOverdue({
    store: createExpiryStore(store.db),
    lifetimes: {
      orderLifetimeMs: POLICY.orderLifetimeMs,
      authorizationLifetimeMs: POLICY.authorizationLifetimeMs,
      preAuthorizationLifetimeMs: POLICY.authorizationLifetimeMs,
    },
    onExpired: () => undefined,
    isStopping: () => false,
  })

/** Of a new certificate. */
async function replacement() {
  const { certificateId, serialNumber } = (await aCertificate(store, requester)).intent
  return { certificateId, certId: renderCertId({ keyIdentifier: Buffer.alloc(20, 1), serialNumber }) }
}

describe('retention of orders', () => {
  test('an invalid order goes when its time after its expiry is over, a younger one stays', async () => {
    const [old, young] = [await anOldOrder(38, 'invalid', 'expired'), await anOldOrder(36, 'invalid', 'expired')]
    assert.equal(await round(), 1)
    assert.equal(await isThere('orders', old.order), false)
    assert.equal(await isThere('orders', young.order), true)
  })

  test('an order that has its age by clocks that jumped stays', async () => {
    const { order, authorization } = await anOldOrder(40, 'invalid', 'expired')
    await jumped(store, 400)
    assert.equal(await round(), 0)
    assert.equal(await isThere('orders', order), true)
    assert.equal(await isThere('authorizations', authorization), true)
  })

  test('a walk that ended while a clock was ahead is walked again once it is right', async () => {
    await store.sql(
      "INSERT INTO cleanup_progress (task, after_id, finished_at) VALUES ('walk', gen_random_uuid(), now() + interval '400 days')",
    )
    assert.equal(await createRetentionStore(store.db).isDue('walk', 3600), false)
    await createClockStore(store.db).endLongWaits()
    await store.sql("UPDATE cleanup_progress SET finished_at = finished_at - interval '1 hour 1 second'")
    assert.equal(await createRetentionStore(store.db).isDue('walk', 3600), true)
  })

  test('an order with a certificate stays for ever', async () => {
    const { order } = await anOldOrder(4000, 'valid', 'valid')
    await round()
    assert.equal(await isThere('orders', order), true)
  })

  for (const status of ['open', 'processing']) {
    test(`the walk waits at an order that is still ${status}, and takes it up again`, async () => {
      const { order } = await anOldOrder(50, status, 'invalid')
      const next = await anOldOrder(49, 'invalid', 'invalid')
      await round()
      assert.equal(await isThere('orders', next.order), true)
      await store.sql("UPDATE orders SET status = 'invalid' WHERE id = $1", [order])
      await round()
      assert.equal(await isThere('orders', order), false)
      assert.equal(await isThere('orders', next.order), false)
    })
  }

  test('an order that was made under a longer lifetime keeps its time', async () => {
    const { order } = await anOldOrder(50, 'invalid', 'expired')
    await store.sql("UPDATE orders SET expires_at = now() - interval '29 days' WHERE id = $1", [order])
    await round()
    assert.equal(await isThere('orders', order), true)
    await store.sql("UPDATE orders SET expires_at = now() - interval '31 days' WHERE id = $1", [order])
    await round()
    assert.equal(await isThere('orders', order), false)
  })

  // RFC 9773 §5: a certificate may be replaced once; again when the order that was to do it came to nothing.
  test('a certificate whose replacement came to nothing can be replaced when that order is gone', async () => {
    const replaces = await replacement()
    const first = await anOrder(store, requester, { replaces })
    const aged = await rekey(store, 'orders', first.id, Date.now() - 40 * DAY_MS, POLICY.orderLifetimeMs)
    await store.sql("UPDATE orders SET status = 'invalid' WHERE id = $1", [aged])
    await store.sql('UPDATE replacements SET order_id = $1', [aged])
    await round()
    assert.equal(await isThere('orders', aged), false)
    const second = await store.orders.create(aNewOrder(requester, { replaces }))
    assert.notEqual(second, ALREADY_REPLACED)
    assert.equal(typeof second, 'object')
  })

  test('a replacement that another order has taken over keeps it', async () => {
    const replaces = await replacement()
    const first = await anOrder(store, requester, { replaces })
    await store.sql("UPDATE orders SET status = 'invalid' WHERE id = $1", [first.id])
    const second = await anOrder(store, requester, { replaces })
    await rekey(store, 'orders', first.id, Date.now() - 40 * DAY_MS, POLICY.orderLifetimeMs)
    await round()
    assert.deepEqual(await store.sql('SELECT order_id FROM replacements'), [{ order_id: second.id }])
  })
})

describe('retention of authorizations', () => {
  for (const status of ['expired', 'invalid', 'deactivated', 'revoked']) {
    test(`one that is ${status} goes with its challenges when its time is over`, async () => {
      const old = await anOldOrder(45, 'valid', status)
      const young = await anOldOrder(43, 'valid', status)
      await expire()
      assert.equal(await round(), 1)
      assert.equal(await isThere('authorizations', old.authorization), false)
      assert.equal(await isThere('authorizations', young.authorization), true)
    })
  }

  for (const status of ['valid', 'pending']) {
    test(`the walk waits at one that is still ${status}: expiry has not met it yet`, async () => {
      const { authorization } = await anOldOrder(50, 'valid', status)
      assert.equal(await round(), 0)
      await expire()
      assert.equal(await round(), 1)
      assert.equal(await isThere('authorizations', authorization), false)
    })
  }

  test('none goes that an open order may count on, however old it is', async () => {
    const { order, authorization } = await anOldOrder(90, 'open', 'expired')
    const later = await anOldOrder(80, 'valid', 'expired')
    await round()
    assert.equal(await isThere('authorizations', authorization), true)
    assert.equal(await isThere('authorizations', later.authorization), true)
    await store.sql("UPDATE orders SET expires_at = now() + interval '1 day' WHERE id = $1", [order])
    await expire()
    await round()
    const isKept = await isThere('authorizations', authorization)
    assert.ok(isKept, 'an order that lives longer than today’s settings say')
    await store.sql("UPDATE orders SET expires_at = now() - interval '1 day' WHERE id = $1", [order])
    await expire()
    await round()
    assert.equal(await isThere('authorizations', authorization), false)
    assert.equal(await isThere('authorizations', later.authorization), false)
  })

  test('a lower age for invalid challenges counts for invalid authorizations', async () => {
    const failed = await anOldOrder(23, 'invalid', 'invalid')
    const expired = await anOldOrder(23, 'valid', 'expired')
    const valid = await anOldOrder(22, 'valid', 'valid')
    await expire()
    await round({ invalidChallengeAgeMs: 7 * DAY_MS })
    assert.equal(await isThere('authorizations', failed.authorization), false)
    assert.equal(await isThere('authorizations', expired.authorization), true)
    assert.equal(await isThere('authorizations', valid.authorization), true)
  })
})

describe('a round of retention', () => {
  /** Copies of an invalid order, one a millisecond. */
  async function many(count: number): Promise<void> {
    const { order } = await anOldOrder(60, 'invalid', 'invalid')
    const madeAt = uuidTime(order).getTime()
    await store.sql(
      `INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at)
       SELECT (lpad(to_hex($2::bigint + n), 12, '0') || substr(replace(o.id::text, '-', ''), 13))::uuid, account_id, status, identifiers,
              authorization_ids, profile, expires_at
         FROM orders o, generate_series(1, $3 - 1) n WHERE o.id = $1`,
      [order, madeAt, count],
    )
  }

  test('goes page by page and rests after each', async () => {
    await many(2500)
    assert.equal(await round(), 2501)
    assert.equal(rests.length, 2)
    assert.ok(rests.every((ms) => ms > 0 && ms <= 250))
  })

  test('ends after its page when the service stops, and the next one goes on there', async () => {
    await many(2500)
    assert.equal(await round({}, () => rests.length > 0), 1000)
    assert.equal(await round(), 1501)
  })

  test('does not come again within its pause, on any instance, unless it was cut short', async () => {
    await many(1500)
    await round({ pauseSeconds: 3600 }, () => rests.length > 0)
    assert.equal(await round({ pauseSeconds: 3600 }), 501)
    await anOldOrder(60, 'invalid', 'invalid')
    assert.equal(await round({ pauseSeconds: 3600 }), 0)
  })

  test('two at once delete each row once', async () => {
    await many(3000)
    const [one, two] = await Promise.all([round(), round()])
    assert.equal(one + two, 3001)
  })
})
