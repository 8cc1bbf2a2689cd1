/** Daily quotas: what is taken back, where, and what becomes of the outcome when that fails. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { createQuotas } from '../../src/services/rate-limiter.ts'
import { createUsageStore, type UsageStore } from '../../src/store/account-rules-store.ts'
import { anAccount, useStores } from './support.ts'

describe('quotas', () => {
  const store = useStores()
  let usage: UsageStore
  before(async () => {
    usage = createUsageStore(store.db)
  })

  const accountId = async () => (await anAccount(store)).account.id
  const days = async (account: string) =>
    (
      await store.sql<{ orders: number }>('SELECT orders FROM account_usage WHERE account_id = $1 ORDER BY day', [
        account,
      ])
    ).map(({ orders }) => orders)

  test('a charge tells its day, and one beyond the limit none', async () => {
    const account = await accountId()
    const charge = () => usage.charge.orders({ accountId: account, limit: 1 })
    assert.match(String(await charge()), /^\d{4}-\d{2}-\d{2}$/)
    assert.equal(await charge(), undefined)
  })

  test('what is taken back over midnight is taken from the day it was counted on', async () => {
    const account = await accountId()
    const [row] = await store.sql<{ day: string }>(
      `INSERT INTO account_usage (day, account_id, orders, granted)
       SELECT (now() AT TIME ZONE 'UTC')::date - n, $1, 2, 0 FROM generate_series(0, 1) n RETURNING (day - 1)::text AS day`,
      [account],
    )
    const ofYesterday = { ...usage, charge: { ...usage.charge, orders: async () => row?.day } }
    const quotas = createQuotas(ofYesterday, { orders: 5, certificates: 5 }, { exceeded() {}, refundFailed() {} })
    await quotas.charged('orders', { accountId: account, identifiers: [] }, async () => undefined)
    assert.deepEqual(await days(account), [1, 2])
  })

  test('a refund that fails is told, and changes no outcome', async () => {
    const account = await accountId()
    const told: string[] = []
    const events = {
      exceeded() {},
      refundFailed: (kind: string, of: string, error: unknown) =>
        told.push(`${kind} ${of} ${(error as Error).message}`),
    }
    const quotas = createQuotas(usage, { orders: 5, certificates: 5 }, events)
    const within = async (outcome: () => Promise<undefined>) => {
      try {
        return await quotas.charged('orders', { accountId: account, identifiers: [] }, async () => {
          await store.sql('ALTER TABLE account_usage RENAME TO gone')
          return outcome()
        })
      } finally {
        await store.sql('ALTER TABLE gone RENAME TO account_usage')
      }
    }
    await assert.rejects(
      within(() => Promise.reject(new Error('the first error'))),
      /^Error: the first error$/,
    )
    assert.equal(await within(async () => undefined), undefined)
    const sentence = `orders ${account} relation "account_usage" does not exist`
    assert.deepEqual(told, [sentence, sentence])
    assert.deepEqual(await days(account), [2])
  })
})
