/** SQL of issuance: begin, complete, fail and adoption, with every refusal and every race. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import type { Order } from '../../src/domain/records.ts'
import { BatcherFull } from '../../src/shared/lib/batcher.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { MAX_OF_KEY } from '../../src/store/database.ts'
import type { InstancePresence } from '../../src/store/instance-presence.ts'
import { each } from '../support/each.ts'
import { until } from '../support/until.ts'
import {
  anAccount,
  anIntent,
  anIssued,
  answers,
  aReadyOrder,
  expire,
  newId,
  useInstances,
  useStores,
  winners,
} from './support.ts'

const REFUSAL = { type: 'urn:ietf:params:acme:error:serverInternal', detail: 'the CA refused', status: 500 }

describe('issuance', () => {
  const store = useStores()
  let requester: Requester
  before(async () => {
    requester = (await anAccount(store)).requester
  })

  const ready = () => aReadyOrder(store, requester)
  const intentFor = ({ id }: { id: string }, over: Parameters<typeof anIntent>[1] = {}) =>
    anIntent({ id, requester }, over)

  async function read(orderId: string): Promise<Order> {
    const order = await store.orders.find({ requester, orderId })
    assert.ok(order && typeof order !== 'symbol')
    return order
  }

  async function find(certificateId: string) {
    const certificate = await store.certificates.find({ requester, certificateId })
    assert.ok(typeof certificate !== 'symbol')
    return certificate
  }

  const intents = async (orderId: string) =>
    (await store.sql('SELECT FROM issuance_intents WHERE order_id = $1', [orderId])).length
  const lockOrder = (id: string) => ({ text: 'SELECT FROM orders WHERE id = $1 FOR UPDATE', values: [id] })
  const lockIntent = (id: string) => ({
    text: 'SELECT FROM issuance_intents WHERE certificate_id = $1 FOR UPDATE',
    values: [id],
  })

  async function begun(over: Parameters<typeof anIntent>[1] = {}) {
    const order = await ready()
    const intent = intentFor(order, over)
    assert.equal(await store.issuance.begin(intent), true)
    return { order, intent }
  }

  describe('begin', () => {
    test('moves a ready order to processing and leaves its intent, together', async () => {
      const { order } = await begun()
      assert.equal((await read(order.id)).status, 'processing')
      assert.equal(await intents(order.id), 1)
    })

    test('of one order many times in one batch begins once, and each of the others learns it', async () => {
      const order = await ready()
      const outcomes = await Promise.all(Array.from({ length: 20 }, () => store.issuance.begin(intentFor(order))))
      assert.equal(winners(outcomes), 1)
      assert.equal(await intents(order.id), 1)
    })

    /** As of an account whose CSR profile asks for the history. */
    const judged = (order: { id: string }, spkiSha256 = randomBytes(32)) => {
      const notDueBefore = new Date()
      const history = { spkiSha256, names: [], notDueBefore, keyIsNew: true, isDue: false }
      return anIntent(undefined, { order: { id: order.id, requester, history }, spkiSha256 })
    }
    const plain = (order: { id: string }, spkiSha256 = randomBytes(32)) => intentFor(order, { spkiSha256 })

    for (const [by, intentOf] of [
      ['', plain],
      ['by the history, ', judged],
    ] as const)
      test(`${by}repeated thousands of times for one order is refused beyond a few, and keeps no other order out`, async () => {
        const [mine, theirs] = [await ready(), await ready()]
        const { spkiSha256 } = (await begun()).intent
        await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [spkiSha256])
        const repeats = Array.from({ length: 3000 }, () => store.issuance.begin(intentOf(mine, spkiSha256)))
        const other = store.issuance.begin(intentOf(theirs))
        const results = await Promise.allSettled(repeats)
        assert.equal(await other, true)
        const refused = results.filter((one) => one.status === 'rejected' && one.reason instanceof BatcherFull)
        assert.equal(results.length - refused.length, MAX_OF_KEY)
      })

    test('by the history waits on one connection, however many orders there are', async () => {
      const orders = await Promise.all(Array.from({ length: 20 }, ready))
      const waiting = async () => {
        const locks = `SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                        WHERE d.datname = current_database() AND locktype = 'advisory' AND objid = 712103 AND NOT granted`
        return (await store.sql(locks)).length
      }
      const begins: Promise<boolean>[] = []
      await store.db.transaction(async (tx) => {
        await tx.query({ name: 'hold-history', text: 'SELECT pg_advisory_xact_lock(712103)' }, [])
        for (const order of orders) {
          begins.push(store.issuance.begin(judged(order)))
          await until('a flush that waits', async () => (await waiting()) > 0)
        }
        assert.equal(await waiting(), 1)
      })
      assert.equal(winners(await Promise.all(begins)), orders.length)
    })

    test('by two instances: one wins', async () => {
      const order = await ready()
      const outcomes = await store.meetAt(lockOrder(order.id), 2, () =>
        Promise.all([store.issuance.begin(intentFor(order)), store.other.issuance.begin(intentFor(order))]),
      )
      assert.equal(winners(outcomes), 1)
      assert.equal(await intents(order.id), 1)
    })

    test('batches of two instances with the same orders in opposite orders all end', async () => {
      const orders = await Promise.all(Array.from({ length: 60 }, ready))
      const outcomes = await Promise.all([
        ...orders.map((order) => store.issuance.begin(intentFor(order))),
        ...orders.toReversed().map((order) => store.other.issuance.begin(intentFor(order))),
      ])
      assert.equal(winners(outcomes), orders.length)
    })

    /** What makes an order that was ready unfit; each refusal leaves the order and no intent. */
    const REFUSALS: Record<string, (order: Order) => Promise<unknown>> = {
      'with a pending authorization': (order) =>
        store.sql("UPDATE authorizations SET status = 'pending' WHERE id = $1", [order.authorizationIds[0]]),
      'with an expired authorization': (order) => expire(store, 'authorizations', order.authorizationIds[0]),
      'with a deactivated authorization': (order) =>
        store.authorizations.deactivate(requester, order.authorizationIds[0] as string),
      'that has expired': (order) => expire(store, 'orders', order.id),
      'that is valid': (order) => store.sql("UPDATE orders SET status = 'valid' WHERE id = $1", [order.id]),
      'that is invalid': (order) => store.sql("UPDATE orders SET status = 'invalid' WHERE id = $1", [order.id]),
    }
    for (const [which, spoil] of Object.entries(REFUSALS)) {
      test(`of an order ${which} is refused`, async () => {
        const order = await aReadyOrder(store, requester, {}, [`a${newId()}.example`, `b${newId()}.example`])
        await spoil(order)
        const { status } = await read(order.id)
        assert.equal(await store.issuance.begin(intentFor(order)), false)
        assert.equal((await read(order.id)).status, status)
        assert.equal(await intents(order.id), 0)
      })
    }

    test('by another account, an old key version or a deactivated account is refused', async () => {
      const { requester: stranger } = await anAccount(store)
      const { requester: leaver } = await anAccount(store)
      const order = await ready()
      const left = await aReadyOrder(store, leaver)
      await store.accounts.deactivate(leaver)
      const outcomes = await Promise.all([
        store.issuance.begin(anIntent({ id: order.id, requester: stranger })),
        store.issuance.begin(anIntent({ id: left.id, requester: leaver })),
        store.issuance.begin(anIntent({ id: newId(), requester })),
      ])
      assert.deepEqual(outcomes, [false, false, false])
      assert.equal(
        await store.issuance.begin(anIntent({ id: order.id, requester: { ...requester, keyVersion: 2 } })),
        false,
      )
      assert.equal((await read(order.id)).status, 'ready')
    })

    test('with a blocked key is refused, and its neighbours in the batch are not', async () => {
      const [blocked, free] = [await ready(), await ready()]
      const spkiSha256 = randomBytes(32)
      await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [spkiSha256])
      const outcomes = await Promise.all([
        store.issuance.begin(intentFor(blocked, { spkiSha256 })),
        store.issuance.begin(intentFor(free)),
      ])
      assert.deepEqual(outcomes, [false, true])
      assert.equal((await read(blocked.id)).status, 'ready')
    })

    test('that the database refuses fails alone in its batch', async () => {
      const [bad, good] = [await ready(), await ready()]
      const { intent: taken } = await begun()
      const results = await Promise.allSettled([
        store.issuance.begin(intentFor(bad, { certificateId: taken.certificateId })),
        store.issuance.begin(intentFor(good)),
      ])
      assert.deepEqual(answers(results), ['failed', true])
      assert.equal((await read(bad.id)).status, 'ready')
    })

    test('of a certificate for the service itself needs no order', async () => {
      const intent = anIntent(undefined)
      assert.equal(await store.issuance.begin(intent), true)
      assert.equal(await store.issuance.complete(anIssued(intent)), true)
      const [row] = await store.sql('SELECT account_id, order_id FROM certificates WHERE id = $1', [
        intent.certificateId,
      ])
      assert.deepEqual(row, { account_id: null, order_id: null })
    })
  })

  describe('complete', () => {
    test('records the certificate, moves the order to valid and removes the intent, together', async () => {
      const { order, intent } = await begun()
      const issued = anIssued(intent, ['a.example', '192.0.2.1', '*.b.example'])
      assert.equal(await store.issuance.complete(issued), true)
      const after = await read(order.id)
      assert.equal(after.status, 'valid')
      assert.equal(after.certificateId, intent.certificateId)
      assert.equal(await intents(order.id), 0)
      assert.deepEqual(await find(intent.certificateId), {
        id: intent.certificateId,
        accountId: requester.accountId,
        orderId: order.id,
        serialNumber: intent.serialNumber.toString('hex'),
        issuerFingerprint: intent.issuerFingerprint.toString('hex'),
        der: issued.der,
        notBefore: issued.notBefore,
        notAfter: issued.notAfter,
        revokedAt: undefined,
      })
      const [row] = await store.sql('SELECT names FROM certificates WHERE id = $1', [intent.certificateId])
      assert.deepEqual(row?.['names'], ['a.example', '192.0.2.1', '*.b.example'])
    })

    test('twice in one batch records once', async () => {
      const { intent } = await begun()
      const outcomes = await Promise.all([1, 2].map(() => store.issuance.complete(anIssued(intent))))
      assert.equal(winners(outcomes), 1)
    })

    test('by two instances with two signatures: one is recorded', async () => {
      const { intent } = await begun()
      const mine = anIssued(intent)
      const others = { ...mine, der: Buffer.concat([mine.der, Buffer.from('!')]) }
      const outcomes = await store.meetAt(lockIntent(intent.certificateId), 2, () =>
        Promise.all([store.issuance.complete(mine), store.other.issuance.complete(others)]),
      )
      assert.equal(winners(outcomes), 1)
      assert.deepEqual((await find(intent.certificateId))?.der, outcomes[0] ? mine.der : others.der)
    })

    test('in one batch each gets its own outcome, and one that the database refuses fails alone', async () => {
      const [first, second, third] = [await begun(), await begun(), await begun()]
      const never = anIntent({ id: newId(), requester })
      const results = await Promise.allSettled([
        store.issuance.complete(anIssued(first.intent)),
        store.issuance.complete(anIssued(never)),
        store.issuance.complete(anIssued(second.intent, ['with a \u0000'])),
        store.issuance.complete(anIssued(third.intent)),
      ])
      assert.deepEqual(answers(results), [true, false, 'failed', true])
      assert.equal(await find(never.certificateId), undefined)
      assert.equal((await read(second.order.id)).status, 'processing')
      assert.equal(await intents(second.order.id), 1)
    })
  })

  describe('fail', () => {
    test('moves the order to invalid with the error and removes the intent', async () => {
      const { order, intent } = await begun()
      assert.equal(await store.issuance.fail(intent.certificateId, REFUSAL), true)
      const after = await read(order.id)
      assert.equal(after.status, 'invalid')
      assert.deepEqual(after.error, REFUSAL)
      assert.equal(await intents(order.id), 0)
      assert.equal(await store.issuance.fail(intent.certificateId, REFUSAL), false)
      assert.equal(await store.issuance.complete(anIssued(intent)), false)
      assert.equal(await find(intent.certificateId), undefined)
    })

    test('at the same time as complete by another instance has one winner, which the order shows', async () => {
      for (let round = 0; round < 5; round++) {
        const { order, intent } = await begun()
        const outcomes = await store.meetAt(lockIntent(intent.certificateId), 2, () =>
          Promise.all([
            store.issuance.complete(anIssued(intent)),
            store.other.issuance.fail(intent.certificateId, REFUSAL),
          ]),
        )
        assert.equal(winners(outcomes), 1)
        assert.equal((await read(order.id)).status, outcomes[0] ? 'valid' : 'invalid')
        assert.equal((await find(intent.certificateId)) !== undefined, outcomes[0])
      }
    })
  })

  describe('adoption', () => {
    const announce = useInstances(store)
    async function instances(count: number): Promise<InstancePresence[]> {
      await store.sql('DELETE FROM issuance_intents')
      return Promise.all(Array.from({ length: count }, () => announce()))
    }
    const adopt = ({ instanceId }: InstancePresence, over: object = {}, most = 10) =>
      store.issuance.adopt(instanceId, { ownOlderThanSeconds: 600, ...over }, most)
    const aged = (certificateId: string, minutes: number) =>
      store.sql(
        'UPDATE issuance_intents SET created_at = now() - make_interval(mins => $2) WHERE certificate_id = $1',
        [certificateId, minutes],
      )

    test('takes what a dead instance left and leaves what a live one does', async () => {
      const [me, alive] = (await instances(2)) as [InstancePresence, InstancePresence]
      const { order, intent } = await begun({ instanceId: 701 })
      await begun({ instanceId: alive.instanceId })
      const { intent: own } = await begun({ instanceId: me.instanceId })
      const self = anIntent(undefined, { instanceId: 702 })
      await store.issuance.begin(self)
      const common = { issuerId: 'default', lapse: undefined, isUnsigned: false }
      const expected = [
        {
          ...common,
          certificateId: intent.certificateId,
          accountId: order.accountId,
          orderId: order.id,
          tbs: intent.tbs,
        },
        { ...common, certificateId: self.certificateId, accountId: undefined, orderId: undefined, tbs: self.tbs },
      ]
      const byId = (one: { certificateId: string }, other: typeof one) =>
        one.certificateId < other.certificateId ? -1 : 1
      assert.deepEqual((await adopt(me)).toSorted(byId), expected.toSorted(byId))
      assert.deepEqual(await adopt(me), [])
      await aged(own.certificateId, 1)
      assert.deepEqual(each(await adopt(me, { ownOlderThanSeconds: 59 }), 'certificateId'), [own.certificateId])
    })

    test('takes what a live instance does when that is too old, where told to', async () => {
      const [me, alive] = (await instances(2)) as [InstancePresence, InstancePresence]
      const { intent } = await begun({ instanceId: alive.instanceId })
      await aged(intent.certificateId, 10)
      assert.deepEqual(await adopt(me), [])
      assert.deepEqual(await adopt(me, { othersOlderThanSeconds: 601 }), [])
      const adopted = await adopt(me, { othersOlderThanSeconds: 599 })
      assert.deepEqual(each(adopted, 'certificateId'), [intent.certificateId])
    })

    test('says when the key of a certificate for the service itself is blocked', async () => {
      const [me] = (await instances(1)) as [InstancePresence]
      const self = anIntent(undefined, { instanceId: 703 })
      await store.issuance.begin(self)
      await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [self.spkiSha256])
      assert.deepEqual(each(await adopt(me), 'lapse'), ['key blocked'])
    })

    test('by two instances: each intent is taken by one, at most as many as asked for', async () => {
      const [a, b] = (await instances(2)) as [InstancePresence, InstancePresence]
      const left = await Promise.all(Array.from({ length: 10 }, () => begun({ instanceId: 704 })))
      const taken = await Promise.all([
        adopt(a, {}, 6),
        store.other.issuance.adopt(b.instanceId, { ownOlderThanSeconds: 600 }, 6),
      ])
      assert.ok(taken.every((part) => part.length <= 6))
      const ids = each([...taken.flat(), ...(await adopt(a))], 'certificateId')
      assert.deepEqual(ids.sort(), left.map(({ intent }) => intent.certificateId).sort())
    })
  })
})
