/** SQL of orders on a real database: batches, reuse of authorizations, derived status, the list. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import type { AuthorizationStatus } from '../../src/domain/authorization-state.ts'
import { type OrderStatus, orderStatus, type StoredOrderStatus } from '../../src/domain/order-state.ts'
import type { Order } from '../../src/domain/records.ts'
import { type Requester, STALE_ACCOUNT } from '../../src/store/account-store.ts'
import {
  aCandidate,
  aName,
  aNewOrder,
  anAccount,
  anIntent,
  anOrder,
  aReadyOrder,
  inHours,
  newId,
  openStores,
  type StoreFixture,
} from './support.ts'

describe('orders', () => {
  let store: StoreFixture
  let requester: Requester
  before(async () => {
    store = await openStores()
    requester = (await anAccount(store)).requester
  })
  after(() => store.close())

  const find = async (orderId: string, by = requester): Promise<Order> => {
    const order = await store.orders.find({ requester: by, orderId })
    assert.ok(order && typeof order !== 'symbol')
    return order
  }

  test('an order is read back as it was made', async () => {
    const dates = { notBefore: new Date('2026-05-01T00:00:00Z'), notAfter: new Date('2026-06-01T00:00:00Z') }
    const made = await anOrder(store, requester, { profile: 'short', ...dates }, [aName(), `*.${aName()}`])
    assert.equal(made.status, 'pending')
    assert.deepEqual(await find(made.id), made)
    const plain = await anOrder(store, requester)
    assert.deepEqual(await find(plain.id), plain)
    assert.ok(!('notBefore' in plain) && !('error' in plain) && !('certificateId' in plain))
  })

  test('authorizations come in the order of the identifiers', async () => {
    const names = Array.from({ length: 30 }, () => aName())
    const order = await anOrder(store, requester, {}, names)
    const rows = await store.sql<{ value: string }>(
      `SELECT identifier_value AS value FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, ord)
         JOIN authorizations USING (id) ORDER BY ord`,
      [order.authorizationIds],
    )
    assert.deepEqual(
      rows.map(({ value }) => value),
      names,
    )
  })

  test('an unknown order is undefined, and each of a batch gets its own answer', async () => {
    const order = await anOrder(store, requester)
    const stale = { ...requester, keyVersion: 9 }
    const found = await Promise.all([
      store.orders.find({ requester, orderId: newId() }),
      store.orders.find({ requester: stale, orderId: order.id }),
      store.orders.find({ requester, orderId: order.id }),
      store.orders.find({ requester, orderId: order.id }),
    ])
    assert.deepEqual(found, [undefined, STALE_ACCOUNT, order, order])
  })

  test('in one batch of creations a stale account and a refused row fail alone', async () => {
    const { requester: other } = await anAccount(store)
    const good = aNewOrder(requester)
    const results = await Promise.allSettled([
      store.orders.create(good),
      store.orders.create(aNewOrder({ ...requester, keyVersion: 2 })),
      store.orders.create(aNewOrder(requester, {}, ['nul\u0000.example'])),
      store.orders.create({ ...aNewOrder(requester), id: good.id }),
      store.orders.create(aNewOrder(other)),
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'rejected', 'rejected', 'fulfilled'],
    )
    assert.equal(results[1]?.status === 'fulfilled' && results[1].value, STALE_ACCOUNT)
    assert.equal((await find(good.id)).identifiers[0]?.value, good.identifiers[0]?.value)
    const rows = await store.sql('SELECT FROM authorizations WHERE id = ANY ($1)', [
      good.authorizations.map(({ id }) => id),
    ])
    assert.equal(rows.length, 1)
  })

  describe('reuse of authorizations', () => {
    /** An equal open order would be given back as it is; one of another profile is made anew. */
    const ANOTHER_ORDER = { profile: 'another' }

    async function reused(first: Order, over: Parameters<typeof aNewOrder>[1], names: string[], by = requester) {
      // Under a profile of its own: an equal request would be answered with the first order.
      const second = await anOrder(store, by, { profile: newId(), ...over }, names)
      return second.authorizationIds.map((id) => first.authorizationIds.includes(id))
    }

    test('a valid one of the same identifier is reused, and an order with nothing else is ready at once', async () => {
      const [name, more] = [aName(), aName()]
      const first = await aReadyOrder(store, requester, {}, [name])
      const second = await anOrder(store, requester, { profile: 'another' }, [name])
      assert.deepEqual(second.authorizationIds, first.authorizationIds)
      assert.equal(second.status, 'ready')
      assert.equal((await find(second.id)).status, 'ready')
      const third = await anOrder(store, requester, {}, [more, name])
      assert.equal(third.status, 'pending')
      assert.equal(third.authorizationIds[1], first.authorizationIds[0])
      const candidates = await store.sql('SELECT FROM authorizations WHERE identifier_value = $1', [name])
      assert.equal(candidates.length, 1, 'no row for a candidate that was not needed')
    })

    test('a pending one is not', async () => {
      const name = aName()
      assert.deepEqual(await reused(await anOrder(store, requester, {}, [name]), ANOTHER_ORDER, [name]), [false])
    })

    test('one of another account is not', async () => {
      const name = aName()
      const first = await aReadyOrder(store, requester, {}, [name])
      assert.deepEqual(await reused(first, {}, [name], (await anAccount(store)).requester), [false])
    })

    test('one of a wildcard serves no plain name, and the other way round', async () => {
      const name = aName()
      const wild = await aReadyOrder(store, requester, {}, [`*.${name}`])
      assert.deepEqual(await reused(wild, {}, [name]), [false])
      const plainName = aName()
      const plain = await aReadyOrder(store, requester, {}, [plainName])
      assert.deepEqual(await reused(plain, {}, [`*.${plainName}`]), [false])
      assert.deepEqual(await reused(plain, {}, [`*.${plainName}`, plainName]), [false, true])
    })

    test('one of another identifier type is not', async () => {
      const value = '192.0.2.7'
      const candidate = (type: 'dns' | 'ip') => aCandidate({ identifier: { type, value } })
      const first = await aReadyOrder(store, requester, { authorizations: [candidate('dns')] }, [value])
      assert.deepEqual(await reused(first, { ...ANOTHER_ORDER, authorizations: [candidate('ip')] }, [value]), [false])
      assert.deepEqual(await reused(first, { authorizations: [candidate('dns')] }, [value]), [true])
    })

    test('one that ends before the margin is not, one that ends after it is', async () => {
      const name = aName()
      const candidate = aCandidate({ identifier: { type: 'dns', value: name }, expiresAt: inHours(2) })
      const first = await aReadyOrder(store, requester, { authorizations: [candidate] }, [name])
      assert.deepEqual(await reused(first, { ...ANOTHER_ORDER, reuseUntil: inHours(2.1) }, [name]), [false])
      assert.deepEqual(await reused(first, { reuseUntil: inHours(1.9) }, [name]), [true])
    })

    test('of several the one that lasts longest is taken', async () => {
      const name = aName()
      const lasting = (hours: number) => ({
        profile: newId(),
        authorizations: [aCandidate({ identifier: { type: 'dns' as const, value: name }, expiresAt: inHours(hours) })],
        reuseUntil: inHours(1000),
      })
      await aReadyOrder(store, requester, lasting(10), [name])
      const longest = await aReadyOrder(store, requester, lasting(30), [name])
      await aReadyOrder(store, requester, lasting(20), [name])
      assert.deepEqual(await reused(longest, {}, [name]), [true])
    })

    for (const status of ['invalid', 'deactivated', 'revoked', 'expired'] as const) {
      test(`one that is ${status} is not`, async () => {
        const name = aName()
        const first = await aReadyOrder(store, requester, {}, [name])
        await store.sql('UPDATE authorizations SET status = $2 WHERE id = ANY ($1)', [first.authorizationIds, status])
        assert.deepEqual(await reused(first, {}, [name]), [false])
      })
    }
  })

  describe('derived status', () => {
    const STATUSES: AuthorizationStatus[] = ['pending', 'valid', 'invalid', 'deactivated', 'expired', 'revoked']
    const authorization = fc.record({ status: fc.constantFrom(...STATUSES), expired: fc.boolean() })
    const facts = fc.record({
      stored: fc.constantFrom<StoredOrderStatus>('open', 'open', 'open', 'processing', 'valid', 'invalid'),
      expired: fc.boolean(),
      authorizations: fc.array(fc.oneof(authorization, fc.constant({ status: 'valid' as const, expired: false })), {
        minLength: 1,
        maxLength: 4,
      }),
    })

    /** The domain's word, from the facts alone. */
    function expected({ stored, expired, authorizations }: typeof facts extends fc.Arbitrary<infer T> ? T : never) {
      const statuses = authorizations.map(
        ({ status, expired: over }): AuthorizationStatus =>
          over && (status === 'pending' || status === 'valid') ? 'expired' : status,
      )
      return orderStatus({ stored, expiresAt: inHours(expired ? -1 : 1), authorizations: statuses }, new Date())
    }

    test('what find derives, what finalize accepts and what the list shows agree with the domain', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(facts, { minLength: 1, maxLength: 12 }), async (many) => {
          const { requester: owner } = await anAccount(store)
          const cases: { id: string; status: OrderStatus }[] = []
          for (const one of many) {
            const names = one.authorizations.map(() => aName())
            const order = await anOrder(store, owner, {}, names)
            await store.sql(
              `UPDATE authorizations z SET status = i.status, expires_at = now() + i.hours * interval '1 hour'
                 FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS i (id, status, hours) WHERE z.id = i.id`,
              [
                order.authorizationIds,
                one.authorizations.map(({ status }) => status),
                one.authorizations.map(({ expired }) => (expired ? -1 : 1)),
              ],
            )
            await store.sql(
              "UPDATE orders SET status = $2, expires_at = now() + $3 * interval '1 hour' WHERE id = $1",
              [order.id, one.stored, one.expired ? -1 : 1],
            )
            cases.push({ id: order.id, status: expected(one) })
          }
          const found = await Promise.all(cases.map(({ id }) => find(id, owner)))
          assert.deepEqual(
            found.map(({ id, status }) => ({ id, status })),
            cases,
          )
          assert.deepEqual(
            await listed(owner, undefined, 100),
            // By their ids; two that were made within one millisecond are in no order.
            cases
              .filter(({ status }) => status !== 'invalid')
              .map(({ id }) => id)
              .toSorted(),
          )
          const begun = await Promise.all(
            cases.map(({ id }) => store.issuance.begin(anIntent({ id, requester: owner }))),
          )
          assert.deepEqual(
            begun,
            cases.map(({ status }) => status === 'ready'),
          )
        }),
        { numRuns: 25 },
      )
    })

    test('expiry is applied when the order is read, without a write', async () => {
      const order = await aReadyOrder(store, requester)
      assert.equal((await find(order.id)).status, 'ready')
      await store.sql("UPDATE authorizations SET expires_at = now() - interval '1 second' WHERE id = ANY ($1)", [
        order.authorizationIds,
      ])
      assert.equal((await find(order.id)).status, 'invalid')
      const [row] = await store.sql('SELECT status FROM orders WHERE id = $1', [order.id])
      assert.equal(row?.['status'], 'open')
    })
  })

  async function listed(owner: Requester, after: string | undefined, limit: number): Promise<string[]> {
    const ids = await store.orders.list(owner, after, limit)
    assert.ok(typeof ids !== 'symbol')
    return ids
  }

  describe('list', () => {
    test('pages through the orders of one account, newest last', async () => {
      const { requester: owner } = await anAccount(store)
      const made: string[] = []
      for (let i = 0; i < 7; i++) {
        made.push((await anOrder(store, owner)).id)
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      await anOrder(store, requester)
      assert.deepEqual(await listed(owner, undefined, 3), made.slice(0, 3))
      assert.deepEqual(await listed(owner, made[2], 3), made.slice(3, 6))
      assert.deepEqual(await listed(owner, made[5], 3), made.slice(6))
      assert.deepEqual(await listed(owner, made[6], 3), [])
    })

    test('of an account that another instance deactivated is stale', async () => {
      const { requester: owner } = await anAccount(store)
      await anOrder(store, owner)
      await store.other.accounts.deactivate(owner)
      assert.equal(await store.orders.list(owner, undefined, 10), STALE_ACCOUNT)
    })

    test('of an account without orders is empty', async () => {
      assert.deepEqual(await listed((await anAccount(store)).requester, undefined, 10), [])
    })
  })
})
