/** Commands of one key beside those of others: each is told what the database says of it, whatever fails next to it. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import type { Authorization, ChallengeAttempt, Order } from '../../src/domain/records.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { createAuthorizationStore } from '../../src/store/authorization-store.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createIssuanceStore, type IssuanceIntent } from '../../src/store/issuance-store.ts'
import { forAllAsync } from '../support/property-runs.ts'
import {
  aCandidate,
  aName,
  aNewOrder,
  anAccount,
  anIntent,
  answers,
  aReadyOrder,
  newId,
  preAuthorizing,
  refusing,
  useStores,
} from './support.ts'

const VALID: ChallengeAttempt = { status: 'valid', tries: 0, validated: '2026-01-01T00:00:00Z' }
const TOO_LARGE = 2 ** 40
const STATEMENT_TIMEOUT_MS = 2_000
const DEADLOCK = '40P01'
const CANCELLED = '57014'

describe('commands of one key beside others', () => {
  const store = useStores(() => impatient.close())
  let requester: Requester
  let impatient: Database
  /** Of a key that no certificate may have. */
  const blocked = randomBytes(32)
  before(async () => {
    requester = (await anAccount(store)).requester
    await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [blocked])
    impatient = openDatabase({ ...store.settings, statementTimeoutMs: STATEMENT_TIMEOUT_MS }, () => undefined)
  })

  async function aTriggered(): Promise<Authorization> {
    const made = await store.authorizations.create(preAuthorizing(requester, aCandidate()))
    assert.ok(typeof made !== 'symbol')
    const { id: authorizationId } = made.authorization
    await store.authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
    return made.authorization
  }
  const recording = ({ id }: Authorization, over: object = {}) => ({
    authorizationId: id,
    type: 'http-01' as const,
    attempt: VALID,
    outcome: 'valid' as const,
    instanceId: 1,
    ...over,
  })
  const statusOf = async ({ id }: Authorization) =>
    (await store.sql('SELECT status FROM authorizations WHERE id = $1', [id]))[0]?.['status']
  const intentFor = ({ id }: Order, over: Partial<IssuanceIntent> = {}) => anIntent({ id, requester }, over)

  test('an outcome that was recorded is told as recorded when a later one of another authorization cannot be', async () => {
    const [a, b] = await Promise.all([aTriggered(), aTriggered()])
    const results = await Promise.allSettled([
      store.authorizations.recordAttempt(recording(a)),
      store.authorizations.recordAttempt(recording(b)),
      store.authorizations.recordAttempt(recording(a, { instanceId: TOO_LARGE })),
    ])
    assert.deepEqual(answers(results), [true, true, 'failed'])
    assert.deepEqual([await statusOf(a), await statusOf(b)], ['valid', 'valid'])
  })

  test('equal new-orders at once are one, whatever else they ask for', async () => {
    const names = [aName()]
    const [first, other] = [aNewOrder(requester, {}, names), aNewOrder(requester)]
    const results = await Promise.allSettled([
      store.orders.create(first),
      store.orders.create(other),
      store.orders.create(aNewOrder(requester, { expiresAt: new Date(Number.NaN) }, names)),
    ])
    const ids = results.map((result) =>
      result.status === 'fulfilled' && typeof result.value === 'object' ? result.value.id : result.status,
    )
    assert.deepEqual(ids, [first.id, other.id, first.id])
  })

  /** The second command of `a` waits for a row that is locked; the first does not ask for that row. */
  async function recordBesideLocked(db: Database, end: () => Promise<void>) {
    const authorizations = createAuthorizationStore(db)
    const [a, b] = await Promise.all([aTriggered(), aTriggered()])
    const holder = openDatabase(store.settings, () => undefined)
    try {
      return await holder.transaction(async (tx) => {
        await tx.query({ name: 'lock', text: 'SELECT FROM authorizations WHERE id = $1 FOR UPDATE' }, [a.id])
        const working = Promise.allSettled([
          authorizations.recordAttempt(recording(a, { instanceId: 2 })),
          authorizations.recordAttempt(recording(b)),
          authorizations.recordAttempt(recording(a)),
        ])
        await end()
        return { results: await working, recorded: [await statusOf(a), await statusOf(b)] }
      })
    } finally {
      await holder.close()
    }
  }

  test('what was committed is told so when the statement after it runs out of time', async () => {
    const { results, recorded } = await recordBesideLocked(impatient, async () => undefined)
    assert.deepEqual(answers(results), [false, true, 'failed'])
    assert.deepEqual(recorded, ['pending', 'valid'])
  })

  test('what was committed is told so when the connection is lost after it', async () => {
    const { results, recorded } = await recordBesideLocked(store.db, async () => {
      const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'`
      while ((await store.sql(end)).length === 0) await sleep(5)
    })
    assert.deepEqual(answers(results), [false, true, 'failed'])
    assert.deepEqual(recorded, ['pending', 'valid'])
  })

  // Injected: the second statement reads by key, and waits for nobody who would let the first one pass.
  for (const code of [DEADLOCK, CANCELLED])
    test(`a challenge that was moved is told so when reading those that were not fails with ${code}`, async () => {
      let refusals = 0
      const isFirstRead = (name: string) => name === 'challenge-triggered-before' && refusals++ === 0
      const authorizations = createAuthorizationStore(
        refusing(store.db, (name) => (isFirstRead(name) ? code : undefined)),
      )
      const [done, made] = await Promise.all([
        aTriggered(),
        store.authorizations.create(preAuthorizing(requester, aCandidate())),
      ])
      assert.ok(typeof made !== 'symbol')
      const results = await Promise.allSettled(
        [done.id, made.authorization.id, newId()].map((authorizationId) =>
          authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 }),
        ),
      )
      const told = answers(results).map((result) =>
        result && typeof result === 'object' && 'moved' in result ? result.moved : result,
      )
      assert.deepEqual(told, code === DEADLOCK ? [false, true, undefined] : ['failed', true, 'failed'])
    })

  test('whatever repeats and whatever fails, each finalize is told what the database says of it', async () => {
    const KINDS = ['fits', 'fits', 'is refused', 'is unfit', 'has a taken key'] as const
    const command = fc.record({ order: fc.nat(3), kind: fc.constantFrom(...KINDS), wait: fc.nat(1) })
    const refusals = fc.array(fc.constantFrom(undefined, undefined, DEADLOCK, CANCELLED), { maxLength: 8 })
    const taken = intentFor(await aReadyOrder(store, requester))
    await store.issuance.begin(taken)
    const more = (kind: (typeof KINDS)[number]): Partial<IssuanceIntent> => {
      if (kind === 'is refused') return { spkiSha256: blocked }
      if (kind === 'is unfit') return { instanceId: TOO_LARGE }
      return kind === 'has a taken key' ? { certificateId: taken.certificateId } : {}
    }
    await forAllAsync(40, fc.array(command, { minLength: 2, maxLength: 12 }), refusals, async (plan, codes) => {
      const orders = await Promise.all([0, 1, 2, 3].map(() => aReadyOrder(store, requester)))
      const injected = [...codes]
      const issuance = createIssuanceStore(refusing(store.db, () => injected.shift()))
      const intents = plan.map(({ order, kind }) => intentFor(orders[order] as Order, more(kind)))
      const results = answers(
        await Promise.allSettled(
          plan.map(async ({ wait }, i) => {
            if (wait > 0) await new Promise(setImmediate)
            return issuance.begin(intents[i] as IssuanceIntent)
          }),
        ),
      )
      const rows = await store.sql<{ certificate_id: string; order_id: string }>(
        'SELECT certificate_id, order_id FROM issuance_intents WHERE order_id = ANY ($1)',
        [orders.map(({ id }) => id)],
      )
      const committed = new Set(rows.map((row) => row.certificate_id))
      for (const [i, { kind }] of plan.entries()) {
        assert.equal(results[i] === true, committed.has((intents[i] as IssuanceIntent).certificateId), `${i}`)
        if (kind === 'is refused' || kind === 'fits') assert.ok(results[i] !== 'failed' || codes.length > 0, `${i}`)
        if (kind === 'is unfit') assert.equal(results[i], 'failed')
      }
      for (const [order, { id }] of orders.entries()) {
        const won = rows.filter((row) => row.order_id === id).length
        const mayWin = plan.some((one) => one.order === order && one.kind === 'fits')
        const isCertain = mayWin && codes.every((code) => code === undefined)
        assert.ok(won <= 1 && (won === 1 || !isCertain) && (won === 0 || mayWin), `order ${order}`)
      }
    })
  })
})
