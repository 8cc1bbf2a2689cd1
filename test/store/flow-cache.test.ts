/** What a front thread remembers is what the database would say, whichever thread changed it last. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import fc from 'fast-check'
import type { Order } from '../../src/domain/records.ts'
import type { RecordedAttempt } from '../../src/services/challenge-triggers.ts'
import { issuedOrder } from '../../src/services/finalization.ts'
import { announcingAccounts, announcingAuthorizations, FlowCache } from '../../src/services/flow-cache.ts'
import { allocateChangeCounters, openChangeCounters } from '../../src/shared/lib/shared-memory.ts'
import { type Requester, STALE_ACCOUNT } from '../../src/store/account-store.ts'
import type { AttemptResult } from '../../src/store/challenge-store.ts'
import { forAllAsync } from '../support/property-runs.ts'
import { aName, aNewOrder, anAccount, anIntent, anIssued, requesterOf, type Stores, useStores } from './support.ts'

const store = useStores()
/** Look-ups that reached the database. */
let asked = 0

interface Front extends Stores {
  recent: FlowCache
}

/** Front threads of one instance and its supervisor, as src/front and src/main make them. */
function instance(fronts: number, keepsOpenOrders = true) {
  const memory = allocateChangeCounters()
  const open = (): Front => {
    const changes = openChangeCounters(memory)
    const recent = new FlowCache(changes, keepsOpenOrders)
    const { orders, authorizations } = store
    const counted = <A extends unknown[], R>(find: (...given: A) => R) => {
      return (...given: A): R => {
        asked++
        return find(...given)
      }
    }
    return {
      ...store,
      recent,
      orders: recent.orders({ ...orders, find: counted(orders.find) }),
      authorizations: recent.authorizations({ ...authorizations, find: counted(authorizations.find) }),
      issuance: recent.issuance(store.issuance),
      accounts: announcingAccounts(store.accounts, changes),
    }
  }
  return {
    fronts: Array.from({ length: fronts }, open),
    supervisor: announcingAuthorizations(store.authorizations, openChangeCounters(memory)),
  }
}

type Instance = ReturnType<typeof instance>
const isOrder = (found: unknown): found is Order => typeof found === 'object'

async function made(front: Front, requester: Requester, names?: string[]): Promise<Order> {
  const order = await front.orders.create(aNewOrder(requester, {}, names))
  assert.ok(isOrder(order))
  return order
}

/** An instance with an order of a new account, whose authorization nobody has validated yet. */
async function scene(fronts = 1) {
  const { requester, account } = await anAccount(store)
  const one = instance(fronts)
  const [front, other] = one.fronts as [Front, Front]
  const order = await made(front, requester)
  const [authorizationId] = order.authorizationIds as [string]
  return { requester, account, one, front, other, order, authorizationId }
}

async function validated({ fronts, supervisor }: Instance, requester: Requester, authorizationId: string) {
  await (fronts[0] as Front).authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
  await recorded(supervisor, authorizationId, 'valid')
}

/** @returns what the supervisor tells of it, when it was recorded */
async function recorded(
  supervisor: Instance['supervisor'],
  authorizationId: string,
  outcome: 'valid' | 'invalid',
  over: Partial<AttemptResult> = {},
): Promise<RecordedAttempt | undefined> {
  const type = 'http-01'
  const caaChecked = outcome === 'valid' && { caaChecked: '2026-01-01T00:00:00Z' }
  const attempt = { status: outcome, tries: 1, ...caaChecked }
  const isRecorded = await supervisor.recordAttempt({ authorizationId, type, attempt, outcome, instanceId: 1, ...over })
  return isRecorded ? { type, attempt, outcome, isBounded: over.validForSeconds !== undefined } : undefined
}

/** Finalizes as issuance.ts does. @returns the certificate, when the order was ready */
async function issued(front: Front, requester: Requester, order: Order) {
  const stamp = front.recent.stampAccount(requester)
  const intent = anIntent({ id: order.id, requester })
  if (!(await front.issuance.begin(intent))) return undefined
  const certificate = anIssued(intent)
  assert.ok(await front.issuance.complete(certificate))
  const { certificateId, der } = certificate
  front.recent.issued(stamp, issuedOrder(order, certificateId), {
    id: certificateId,
    der,
    issuerFingerprint: '07'.repeat(32),
  })
  return certificateId
}

describe('in a flow on one connection', () => {
  // What is remembered is forgotten after two seconds, and a machine may stall for as long.
  beforeEach(() => {
    const now = performance.now()
    mock.method(performance, 'now', () => now)
  })
  afterEach(() => mock.restoreAll())

  test('only the poll that sees the validation asks the database, where the supervisor did not tell', async () => {
    const { requester, one, front, order, authorizationId } = await scene()
    const find = () => front.authorizations.find({ requester, authorizationId })

    asked = 0
    assert.equal(((await find()) as { status: string }).status, 'pending')
    assert.equal(asked, 0)
    await validated(one, requester, authorizationId)
    assert.equal(((await find()) as { status: string }).status, 'valid')
    assert.equal(asked, 1)
    const ready = await front.orders.find({ requester, orderId: order.id })
    assert.ok(isOrder(ready))
    assert.equal(ready.status, 'ready')
    assert.deepEqual(ready.caaCheckedAt, new Date('2026-01-01T00:00:00Z'))
    const certificateId = await issued(front, requester, ready)
    assert.ok(certificateId)
    const valid = await front.orders.find({ requester, orderId: order.id })
    assert.deepEqual([isOrder(valid) && valid.status, isOrder(valid) && valid.certificateId], ['valid', certificateId])
    assert.ok(front.recent.certificate(requester, certificateId))
    assert.equal(asked, 1)
    assert.deepEqual(valid, await store.orders.find({ requester, orderId: order.id }))
  })

  test('nothing is asked when the supervisor tells how the attempt ended, with a claim and without one', async () => {
    const { requester, account } = await anAccount(store)
    const one = instance(1)
    const front = one.fronts[0] as Front
    for (const isClaimed of [true, false]) {
      const order = await made(front, requester)
      const [authorizationId] = order.authorizationIds as [string]
      if (isClaimed) await front.authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
      const unclaimed = isClaimed ? {} : { unclaimed: { thumbprint: account.thumbprint } }
      const news = await recorded(one.supervisor, authorizationId, 'valid', unclaimed)
      assert.ok(news)
      asked = 0
      front.recent.attempted(authorizationId, news)
      const found = await front.authorizations.find({ requester, authorizationId })
      assert.deepEqual(found, await store.authorizations.find({ requester, authorizationId }))
      const ready = await front.orders.find({ requester, orderId: order.id })
      assert.deepEqual([isOrder(ready) && ready.status, asked], ['ready', 0])
    }
  })

  test('what may expire sooner than before is looked up', async () => {
    const { requester, account, one, front, authorizationId } = await scene()
    const unclaimed = { thumbprint: account.thumbprint }
    const news = await recorded(one.supervisor, authorizationId, 'valid', { unclaimed, validForSeconds: 60 })
    assert.ok(news)
    asked = 0
    front.recent.attempted(authorizationId, news)
    const found = await front.authorizations.find({ requester, authorizationId })
    assert.deepEqual([found, asked], [await store.authorizations.find({ requester, authorizationId }), 1])
  })

  for (const [what, isLookedUp] of [
    ['what was changed after the attempt, before the news of it came, is looked up', false],
    ['news that comes late changes nothing in what was looked up after the attempt', true],
  ] as const)
    test(what, async () => {
      const { requester, account, one: two, front, other, authorizationId } = await scene(2)
      const unclaimed = { thumbprint: account.thumbprint }
      const news = await recorded(two.supervisor, authorizationId, 'valid', { unclaimed })
      assert.ok(news)
      if (isLookedUp) await front.authorizations.find({ requester, authorizationId })
      await other.authorizations.deactivate(requester, authorizationId)
      front.recent.attempted(authorizationId, news)
      const found = await front.authorizations.find({ requester, authorizationId })
      assert.equal(typeof found === 'object' && found.status, 'deactivated')
    })

  test('a triggered challenge is remembered as processing until the supervisor has recorded an attempt', async () => {
    const { requester, one, front, authorizationId } = await scene()
    await front.authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
    asked = 0
    const before = await front.authorizations.find({ requester, authorizationId })
    assert.ok(typeof before === 'object')
    assert.deepEqual([before.attempts['http-01']?.status, asked], ['processing', 0])
    await recorded(one.supervisor, authorizationId, 'invalid')
    const after = await front.authorizations.find({ requester, authorizationId })
    assert.ok(typeof after === 'object')
    assert.deepEqual([after.status, asked], ['invalid', 1])
  })
})

describe('nothing is told from memory', () => {
  test('to another account', async () => {
    const { requester, one, front, order, authorizationId } = await scene()
    const { requester: stranger } = await anAccount(store)
    asked = 0
    await front.orders.find({ requester: stranger, orderId: order.id })
    await front.authorizations.find({ requester: stranger, authorizationId })
    assert.equal(asked, 2)
    await validated(one, requester, authorizationId)
    const certificateId = await issued(front, requester, order)
    assert.equal(front.recent.certificate(stranger, certificateId as string), undefined)
  })

  test('to an account that another thread has deactivated, or whose key it has changed (RFC 8555 §7.3.5, §7.3.6)', async () => {
    for (const change of ['deactivate', 'changeKey'] as const) {
      const { requester, one, front, other, order, authorizationId } = await scene(2)
      await validated(one, requester, authorizationId)
      const certificateId = (await issued(front, requester, order)) as string
      if (change === 'deactivate') await other.accounts.deactivate(requester)
      else await other.accounts.changeKey(requester, { jwk: '{}', thumbprint: randomBytes(32).toString('base64url') })
      assert.equal(await front.orders.find({ requester, orderId: order.id }), STALE_ACCOUNT)
      assert.equal(await front.authorizations.find({ requester, authorizationId }), STALE_ACCOUNT)
      assert.equal(front.recent.certificate(requester, certificateId), undefined)
    }
  })

  test('of an order that is not ready by memory, so that nobody is refused because of it', async () => {
    const { requester } = await anAccount(store)
    const front = instance(1).fronts[0] as Front
    const { id: orderId } = await made(front, requester)
    asked = 0
    const found = await front.orders.find({ requester, orderId })
    assert.deepEqual([isOrder(found) && found.status, asked], ['pending', 1])
  })

  test('of an open order whose account has a CSR profile, or must have one', async () => {
    const { requester } = await anAccount(store)
    const [profile] = await store.sql<{ id: string }>(
      `INSERT INTO csr_profiles (id, name, profile_data) VALUES (gen_random_uuid(), $1, '{}') RETURNING id`,
      [aName()],
    )
    const front = instance(1).fronts[0] as Front
    const order = await made(front, requester)
    await store.sql('INSERT INTO account_csr_profiles (account_id, csr_profile_id) VALUES ($1, $2)', [
      requester.accountId,
      profile?.id,
    ])
    // Known from the first look-up on; until then the statement that begins an issuance refuses (issuance-store.test.ts).
    await made(front, requester)
    const strict = instance(1, false).fronts[0] as Front
    const another = await made(strict, requester)
    asked = 0
    const found = await strict.orders.find({ requester, orderId: another.id })
    assert.deepEqual([isOrder(found) && found.csrProfileId, asked], [profile?.id, 1])
    assert.equal(await front.issuance.begin(anIntent({ id: order.id, requester })), false)
  })
})

test('whatever is done on whichever thread, each of them says what the database says', async () => {
  const step = fc.record({
    front: fc.nat(2),
    kind: fc.constantFrom('new', 'trigger', 'valid', 'invalid', 'deactivate', 'finalize', 'rekey', 'close'),
    isClaimed: fc.boolean(),
    /** Fronts that hear of attempts before anything else happens, and those that hear of them after the next step. */
    isLate: fc.boolean(),
    at: fc.nat(5),
  })
  await forAllAsync(60, fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
    const account = await anAccount(store)
    let { requester } = account
    let { thumbprint } = account.account
    const three = instance(3)
    const orders: Order[] = []
    let news: (() => void)[] = []
    for (const { front: index, kind, at, isClaimed, isLate } of steps) {
      const lateNews = news
      news = []
      const front = three.fronts[index] as Front
      const order = orders[at % Math.max(1, orders.length)]
      const authorizationId = order?.authorizationIds[at % order.authorizationIds.length]
      if (kind === 'new') {
        const order = await front.orders.create(aNewOrder(requester, {}, [aName(), aName()].slice(at % 2)))
        if (isOrder(order)) orders.push(order)
      } else if (!order || !authorizationId) continue
      else if (kind === 'trigger')
        await front.authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
      else if (kind === 'valid' || kind === 'invalid') {
        const unclaimed = isClaimed ? {} : { unclaimed: { thumbprint } }
        const told = await recorded(three.supervisor, authorizationId, kind, unclaimed)
        const tell = () => told && front.recent.attempted(authorizationId, told)
        if (isLate) news.push(tell)
        else tell()
      } else if (kind === 'deactivate') await front.authorizations.deactivate(requester, authorizationId)
      else if (kind === 'finalize') {
        const current = await front.orders.find({ requester, orderId: order.id })
        if (isOrder(current)) await issued(front, requester, current)
      } else if (kind === 'close') {
        if (at === 5) await front.accounts.deactivate(requester)
      } else {
        const key = { jwk: '{}', thumbprint: randomBytes(32).toString('base64url') }
        const changed = await front.accounts.changeKey(requester, key)
        if (changed && !('taken' in changed)) {
          requester = requesterOf(changed)
          thumbprint = key.thumbprint
        }
      }
      for (const tell of lateNews) tell()
      for (const { id: orderId, authorizationIds } of orders) {
        const truth = await store.orders.find({ requester, orderId })
        for (const { orders, authorizations } of three.fronts) {
          assert.deepEqual(await orders.find({ requester, orderId }), truth)
          for (const authorizationId of authorizationIds)
            assert.deepEqual(
              await authorizations.find({ requester, authorizationId }),
              await store.authorizations.find({ requester, authorizationId }),
            )
        }
      }
    }
  })
})
