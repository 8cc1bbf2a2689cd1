/** Equal new-order requests are answered with one order (RFC 8555 §7.4), and a certificate is replaced once (RFC 9773 §5). */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { Order } from '../../src/domain/records.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { ALREADY_REPLACED, type NewOrder } from '../../src/store/order-store.ts'
import {
  aName,
  aNewOrder,
  anAccount,
  anIntent,
  anOrder,
  authorize,
  expire,
  inHours,
  newId,
  type StoreFixture,
  storesOn,
  useStores,
} from './support.ts'

const store = useStores()
let requester: Requester
beforeEach(async () => {
  ;({ requester } = await anAccount(store))
})

const isOrder = (result: unknown): result is Order => typeof result === 'object'
const idOf = (result: unknown) => (isOrder(result) ? result.id : result)

async function count(table: string, where: string, value: unknown): Promise<number> {
  const [row] = await store.sql<{ n: number }>(`SELECT count(*)::integer AS n FROM ${table} WHERE ${where}`, [value])
  return row?.n ?? 0
}

/** By two instances at once. */
const createMany = (length: number, ...more: [Partial<NewOrder>, string[]?]) =>
  Promise.all(
    Array.from({ length }, (_, i) => (i % 2 ? store : store.other).orders.create(aNewOrder(requester, ...more))),
  )

/** The claim of a request, made by the test itself and not yet committed, so that others wait for it. */
const claimLock = {
  text: 'SELECT FROM order_claims WHERE order_id = $1 FOR UPDATE',
}

describe('an equal new-order', () => {
  test('is answered with the open order, and makes no authorizations', async () => {
    const names = [aName(), aName()]
    const first = await anOrder(store, requester, {}, names)
    const second = await anOrder(store, requester, { expiresAt: inHours(48) }, names.toReversed())
    assert.deepEqual(second, first)
    assert.equal(await count('authorizations', 'account_id = $1', requester.accountId), 2)
    await authorize(store, requester, first)
    const third = await anOrder(store, requester, {}, names)
    assert.deepEqual([third.id, third.status], [first.id, 'ready'])
  })

  const different: Record<string, Partial<NewOrder>> = {
    'another profile': { profile: 'short' },
    'a notBefore': { notBefore: inHours(1) },
    'a notAfter': { notAfter: inHours(48) },
    'a certificate to replace': { replaces: { certificateId: newId(), certId: 'AQ.AQ' } },
  }
  for (const [what, over] of Object.entries(different)) {
    test(`with ${what} is not equal`, async () => {
      const name = aName()
      const first = await anOrder(store, requester, {}, [name])
      assert.notEqual((await anOrder(store, requester, over, [name])).id, first.id)
    })
  }

  test('of another account is not equal', async () => {
    const name = aName()
    const first = await anOrder(store, requester, {}, [name])
    assert.notEqual((await anOrder(store, (await anAccount(store)).requester, {}, [name])).id, first.id)
  })

  const gone: Record<string, (order: Order) => Promise<unknown>> = {
    'has expired': ({ id }) => expire(store, 'orders', id),
    'failed an authorization': ({ authorizationIds }) =>
      store.sql("UPDATE authorizations SET status = 'invalid' WHERE id = $1", [authorizationIds[0]]),
    'has an expired authorization': ({ authorizationIds }) => expire(store, 'authorizations', authorizationIds[0]),
    'is invalid': ({ id }) => store.sql("UPDATE orders SET status = 'invalid' WHERE id = $1", [id]),
    'is being finalized': async (order) => {
      await authorize(store, requester, order)
      assert.equal(await store.issuance.begin(anIntent({ id: order.id, requester })), true)
      assert.equal(await count('order_claims', 'order_id = $1', order.id), 0, 'its claim went with the finalize')
    },
  }
  for (const [what, end] of Object.entries(gone)) {
    test(`makes a new order when the old one ${what}, and is answered with that one from then on`, async () => {
      const name = aName()
      const first = await anOrder(store, requester, {}, [name])
      await end(first)
      const second = await anOrder(store, requester, {}, [name])
      assert.notEqual(second.id, first.id)
      assert.equal((await anOrder(store, requester, {}, [name])).id, second.id)
    })
  }

  test('sent many times at once, to two instances, makes one order', async () => {
    for (let round = 0; round < 10; round++) {
      const names = [aName()]
      const results = await createMany(40, {}, names)
      assert.equal(new Set(results.map(idOf)).size, 1)
      assert.ok(isOrder(results[0]))
    }
    assert.equal(await count('orders', 'account_id = $1', requester.accountId), 10)
  })

  test('that waits for the other one to commit is answered with its order, which its snapshot does not show', async () => {
    const names = [aName()]
    const stale = await anOrder(store, requester, {}, names)
    await store.sql("UPDATE orders SET status = 'invalid' WHERE id = $1", [stale.id])
    const results = await store.meetAt({ ...claimLock, values: [stale.id] }, 2, () =>
      Promise.all([
        store.orders.create(aNewOrder(requester, {}, names)),
        store.other.orders.create(aNewOrder(requester, {}, names)),
      ]),
    )
    assert.equal(new Set(results.map(idOf)).size, 1)
    assert.notEqual(idOf(results[0]), stale.id)
  })

  test('two instances that make the same orders in opposite sequence do not block each other', async () => {
    const names = Array.from({ length: 60 }, () => aName())
    const make = (orders: StoreFixture['orders'], sequence: readonly string[]) =>
      Promise.all(sequence.map((name) => orders.create(aNewOrder(requester, {}, [name]))))
    await Promise.all([make(store.orders, names), make(store.other.orders, names.toReversed())])
    assert.equal(await count('orders', 'account_id = $1', requester.accountId), 60)
  })
})

/**
 * A store that loses each race: what it looks up as an equal order is over by then, and another equal order has taken its place.
 */
function alwaysLate(over: Partial<NewOrder>, names: string[]): StoreFixture['orders'] {
  const { pipeline } = store.db
  return storesOn({
    ...store.db,
    pipeline: {
      ...pipeline,
      async run(statement, values) {
        if (statement.name === 'order-find') {
          await store.sql("UPDATE orders SET status = 'invalid' WHERE id = ANY ($1)", [values[0]])
          await store.other.orders.create(aNewOrder(requester, over, names))
        }
        return pipeline.run(statement, values)
      },
    },
  }).orders
}

test('a new-order whose equals are over each time it looks is answered with an order of its own', async () => {
  const names = [aName()]
  await anOrder(store, requester, {}, names)
  const order = aNewOrder(requester, {}, names)
  const made = await alwaysLate({}, names).create(order)
  assert.ok(isOrder(made))
  assert.deepEqual([made.id, made.status], [order.id, 'pending'])
  await authorize(store, requester, made)
  assert.equal(await store.issuance.begin(anIntent({ id: made.id, requester })), true)
})

test('a replacement whose equals are over each time it looks is refused: another order had the certificate', async () => {
  const [names, over] = [[aName()], { replaces: { certificateId: newId(), certId: 'AQ.AQ' } }]
  await anOrder(store, requester, over, names)
  assert.equal(await alwaysLate(over, names).create(aNewOrder(requester, over, names)), ALREADY_REPLACED)
})

describe('a replacement', () => {
  const replacing = (certificateId: string) => ({ replaces: { certificateId, certId: 'AQ.AQ' } })

  test('is stored with its certID, and as exempt from limits where it is', async () => {
    const over = { replaces: { certificateId: newId(), certId: 'AQ.AQ', isExempt: true } }
    const order = await anOrder(store, requester, over)
    assert.deepEqual([order.replaces, order.isExempt], ['AQ.AQ', true])
    assert.deepEqual(await store.orders.find({ requester, orderId: order.id }), order)
    assert.ok(!('isExempt' in (await anOrder(store, requester, replacing(newId())))))
  })

  test('of the same certificate by another order is refused, and leaves nothing behind', async () => {
    const certificateId = newId()
    await anOrder(store, requester, replacing(certificateId))
    const before = await count('authorizations', 'account_id = $1', requester.accountId)
    assert.equal(await store.orders.create(aNewOrder(requester, replacing(certificateId))), ALREADY_REPLACED)
    assert.equal(await count('orders', 'account_id = $1', requester.accountId), 1)
    assert.equal(await count('authorizations', 'account_id = $1', requester.accountId), before)
  })

  test('asked for once more in the same way is the same order, until it is finalized', async () => {
    const [certificateId, names] = [newId(), [aName()]]
    const first = await anOrder(store, requester, replacing(certificateId), names)
    assert.deepEqual(await anOrder(store, requester, replacing(certificateId), names), first)
    await authorize(store, requester, first)
    await store.issuance.begin(anIntent({ id: first.id, requester }))
    assert.equal(await store.orders.create(aNewOrder(requester, replacing(certificateId), names)), ALREADY_REPLACED)
  })

  test('is possible again when the order that replaced it is invalid', async () => {
    const certificateId = newId()
    const first = await anOrder(store, requester, replacing(certificateId))
    await expire(store, 'orders', first.id)
    const second = await anOrder(store, requester, replacing(certificateId))
    assert.notEqual(second.id, first.id)
    assert.equal(await store.orders.create(aNewOrder(requester, replacing(certificateId))), ALREADY_REPLACED)
  })

  test('by many orders at once, at two instances, succeeds once', async () => {
    const certificateId = newId()
    const results = await createMany(16, replacing(certificateId))
    assert.equal(results.filter(isOrder).length, 1)
    assert.equal(results.filter((result) => result === ALREADY_REPLACED).length, 15)
  })
})
