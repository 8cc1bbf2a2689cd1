/** SQL of orders on a real database: batches, reuse of authorizations, derived status, the list. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { listOrders } from '../../src/admin/certificates/order-list.ts'
import type { Order } from '../../src/domain/records.ts'
import type { AuthorizationStatus } from '../../src/domain/states.ts'
import { ORDER_EXPIRED, type OrderStatus, orderStatus, type StoredOrderStatus } from '../../src/domain/states.ts'
import { type Requester, STALE_ACCOUNT } from '../../src/store/account-store.ts'
import type { Database, Statement } from '../../src/store/database.ts'
import { LIST_STEPS, type OrderPage } from '../../src/store/order-store.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { each } from '../support/each.ts'
import { forAllAsync } from '../support/property-runs.ts'
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
  storesOn,
  useStores,
} from './support.ts'

describe('orders', () => {
  const store = useStores()
  let requester: Requester
  before(async () => {
    requester = (await anAccount(store)).requester
  })

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
    assert.deepEqual(each(rows, 'value'), names)
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
    assert.deepEqual(each(results, 'status'), ['fulfilled', 'fulfilled', 'rejected', 'rejected', 'fulfilled'])
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

    for (const status of ['pending', 'invalid', 'deactivated', 'revoked', 'expired'] as const) {
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
      await forAllAsync(25, fc.array(facts, { minLength: 1, maxLength: 12 }), async (many) => {
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
          await store.sql("UPDATE orders SET status = $2, expires_at = now() + $3 * interval '1 hour' WHERE id = $1", [
            order.id,
            one.stored,
            one.expired ? -1 : 1,
          ])
          cases.push({ id: order.id, status: expected(one) })
        }
        const found = await Promise.all(cases.map(({ id }) => find(id, owner)))
        assert.deepEqual(
          found.map(({ id, status }) => ({ id, status })),
          cases,
        )
        // RFC 8555 §7.1.3
        for (const [at, { stored, expired }] of many.entries())
          assert.deepEqual(found[at]?.error, stored === 'open' && expired ? ORDER_EXPIRED : undefined)
        assert.deepEqual(
          (await pageOf(owner, undefined, 100)).ids,
          // By their ids; two that were made within one millisecond are in no order.
          cases
            .filter(({ status }) => status !== 'invalid')
            .map(({ id }) => id)
            .toSorted(),
        )
        const begun = await Promise.all(cases.map(({ id }) => store.issuance.begin(anIntent({ id, requester: owner }))))
        assert.deepEqual(
          begun,
          cases.map(({ status }) => status === 'ready'),
        )
      })
    })

    for (const missing of [1, 2])
      test(`${missing} of two authorizations missing: the order is invalid, as if they had failed`, async () => {
        const { requester: owner } = await anAccount(store)
        const order = await aReadyOrder(store, owner, {}, [aName(), aName()])
        await store.sql('DELETE FROM authorizations WHERE id = ANY ($1)', [order.authorizationIds.slice(0, missing)])
        assert.equal((await find(order.id, owner)).status, 'invalid')
        assert.equal(await store.issuance.begin(anIntent({ id: order.id, requester: owner })), false)
        assert.deepEqual((await pageOf(owner, undefined, 10)).ids, [])
        const checked = await openCheckedDatabase(store.settings)
        const { rows } = await listOrders(checked, { account_id: owner.accountId }, undefined, 10)
        await checked.end()
        assert.deepEqual(each(rows, 'status'), ['invalid'])
        const names = order.identifiers.map(({ value }) => value)
        assert.notEqual((await anOrder(store, owner, {}, names)).id, order.id, 'nor is it given back as an equal one')
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

  async function pageOf(owner: Requester, after: string | undefined, limit: number): Promise<OrderPage> {
    const page = await store.orders.list(owner, after, limit)
    assert.ok(typeof page !== 'symbol')
    return page
  }

  /** All pages, from the first. */
  async function listed(owner: Requester, limit: number): Promise<OrderPage[]> {
    const pages = [await pageOf(owner, undefined, limit)]
    for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next)
      pages.push(await pageOf(owner, next, limit))
    return pages
  }

  describe('list', () => {
    test('pages through the orders of one account, newest last', async () => {
      const { requester: owner } = await anAccount(store)
      const made: string[] = []
      for (let i = 0; i < 7; i++) {
        made.push((await anOrder(store, owner)).id)
        await sleep(2)
      }
      await anOrder(store, requester)
      assert.deepEqual(await pageOf(owner, undefined, 3), { ids: made.slice(0, 3), next: made[2] })
      assert.deepEqual(await pageOf(owner, made[2], 3), { ids: made.slice(3, 6), next: made[5] })
      assert.deepEqual(await pageOf(owner, made[5], 3), { ids: made.slice(6), next: undefined })
      assert.deepEqual(await pageOf(owner, made[6], 3), { ids: [], next: undefined })
    })

    /** Rows that a page has read from tables, whatever came of them. */
    async function rowsRead(owner: Requester, after: string | undefined): Promise<number> {
      let sent: { statement: Statement; values: readonly unknown[] } | undefined
      const spying: Database = {
        ...store.db,
        query(statement, values) {
          sent = { statement, values }
          return store.db.query(statement, values)
        },
      }
      await storesOn(spying).orders.list(owner, after, 50)
      assert.ok(sent)
      const { text } = sent.statement
      const [row] = await store.sql(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, [...sent.values])
      type Plan = { 'Node Type': string; 'Actual Rows': number; 'Actual Loops': number; Plans?: Plan[] }
      const read = ({ Plans = [], ...node }: Plan): number =>
        (/^(?:Seq|Index|Index Only|Bitmap Heap) Scan$/.test(node['Node Type'])
          ? node['Actual Rows'] * node['Actual Loops']
          : 0) + Plans.reduce((sum, plan) => sum + read(plan), 0)
      return read(row?.['QUERY PLAN'][0].Plan)
    }

    const FILL_ORDERS = `
      INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at, status)
      SELECT gen_random_uuid(), $1, '[]', $2, 'default', now() + interval '1 day', $3 FROM generate_series(1, $4::integer)`

    test('looks through a bounded number of invalid orders: a page may be empty and have a next one', async () => {
      const { requester: owner } = await anAccount(store)
      await store.sql(FILL_ORDERS, [owner.accountId, [newId()], 'invalid', 2.5 * LIST_STEPS])
      const newest = await anOrder(store, owner, { id: 'ffffffff-ffff-7fff-bfff-ffffffffffff' })
      const pages = await listed(owner, 50)
      assert.deepEqual(each(pages, 'ids'), [[], [], [newest.id]])
      assert.ok((await rowsRead(owner, undefined)) <= LIST_STEPS + 2)
    })

    test('counts the authorizations of open orders among what a page may look at', async () => {
      const { requester: owner } = await anAccount(store)
      const names = Array.from({ length: 99 }, () => aName())
      const { authorizationIds } = await anOrder(store, owner, { id: '00000000-0000-7000-8000-000000000000' }, names)
      const [failing] = authorizationIds
      await store.sql("UPDATE authorizations SET status = 'invalid' WHERE id = $1", [failing])
      await store.sql(FILL_ORDERS, [owner.accountId, authorizationIds, 'open', 44])
      const pages = await listed(owner, 50)
      assert.ok(pages.every(({ ids }) => ids.length === 0))
      assert.ok(pages.length >= 4_500 / LIST_STEPS, `${pages.length} pages`)
      assert.ok((await rowsRead(owner, undefined)) <= LIST_STEPS + 102)
    })

    test('of an account that another instance deactivated is stale', async () => {
      const { requester: owner } = await anAccount(store)
      await anOrder(store, owner)
      await store.other.accounts.deactivate(owner)
      assert.equal(await store.orders.list(owner, undefined, 10), STALE_ACCOUNT)
    })
  })
})
