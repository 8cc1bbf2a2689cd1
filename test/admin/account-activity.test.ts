/** When accounts were last seen, and with which client: noted by ACME requests, written later, shown to administrators. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { AccountActivity } from '../../src/services/account-cache.ts'
import type { SeenAccount } from '../../src/store/account-activity-store.ts'
import type { Statement } from '../../src/store/database.ts'
import { type AcmeClient, createAcmeClient, newAccountKey, send } from '../support/acme-client.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, NOBODY } from '../support/bound.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('what a front remembers', () => {
  const NOW = new Date('2026-11-28T12:00:00Z')
  const recording = () => {
    const batches: SeenAccount[][] = []
    return { batches, activity: new AccountActivity(async (seen) => void batches.push([...seen])) }
  }

  test('an account is written once an hour, all accounts in one batch', async () => {
    const { batches, activity } = recording()
    activity.seen('a', 'certbot/5.1', NOW)
    activity.seen('a', 'certbot/5.1', NOW)
    activity.seen('b', undefined, NOW)
    await activity.write()
    activity.seen('a', 'lego/4', NOW)
    await activity.write()
    assert.deepEqual(batches, [
      [
        { accountId: 'a', userAgent: 'certbot/5.1', seenAt: NOW },
        { accountId: 'b', userAgent: null, seenAt: NOW },
      ],
    ])
  })

  test('a name is cut to 200 characters, and steers no terminal', async () => {
    const { batches, activity } = recording()
    activity.seen('a', `\u001b[31m\u0000${'x'.repeat(9_000)}`, NOW)
    await activity.write()
    const sent = batches[0]?.[0]?.userAgent ?? ''
    assert.equal(sent.length, 200)
    assert.match(sent, /^\\u001b\[31m\\u0000x+$/)
  })

  test('what could not be written is noted again with the next request', async () => {
    let fails = true
    const written: string[] = []
    const activity = new AccountActivity(async (seen) => {
      if (fails) throw new Error('the database is away')
      written.push(...seen.map(({ accountId }) => accountId))
    })
    activity.seen('a', 'lego', NOW)
    await assert.rejects(activity.write())
    fails = false
    activity.seen('a', 'lego', NOW)
    await activity.write()
    assert.deepEqual(written, ['a'])
  })

  test('the accounts that wait are bounded', async () => {
    const { batches, activity } = recording()
    for (let at = 0; at < 20_000; at++) activity.seen(`account ${at}`, 'x', NOW)
    await activity.write()
    assert.equal(batches[0]?.length, 10_000)
  })
})

describe('the activity of accounts', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  let named: AcmeClient
  before(async () => {
    named = await clientNamed('certbot/5.1.0 (Linux)')
  })

  const clientNamed = async (userAgent: string | undefined) => {
    const client = await createAcmeClient(service.directoryUrl, newAccountKey(), (request) =>
      send({ ...request, headers: { ...request.headers, ...(userAgent && { 'User-Agent': userAgent }) } }),
    )
    assert.equal((await client.newAccount({ termsOfServiceAgreed: true })).status, 201)
    return client
  }
  const shown = async (client: AcmeClient) => (await admin.get(`/accounts/${accountIdOf(client)}`)).json

  test('a registration tells the client and the time; without a User-Agent the client is not known', async () => {
    const unnamed = await clientNamed(undefined)
    const accounts = [named, unnamed].map(accountIdOf)
    await until('a front has written', async () => {
      const rows = await sql('SELECT FROM account_activity WHERE account_id = ANY ($1)', [accounts])
      return rows.length === accounts.length
    })
    const account = await shown(named)
    assert.equal(account.client, 'certbot/5.1.0 (Linux)')
    assert.ok(Math.abs(Date.parse(account.last_seen_at) - Date.parse(account.created_at)) < 60_000)
    assert.deepEqual([(await shown(unnamed)).client, (await shown(unnamed)).last_seen_at === null], [null, false])
    const list = (await admin.get('/accounts')).json as { id: string; client: string | null; last_seen_at: string }[]
    const row = list.find(({ id }) => id === accountIdOf(named))
    assert.deepEqual([row?.client, row?.last_seen_at], [account.client, account.last_seen_at])
    await sql('DELETE FROM account_activity WHERE account_id = $1', [accountIdOf(unnamed)])
    assert.equal((await shown(unnamed)).last_seen_at, null, 'one that has not come since this is recorded')
  })

  test('an older sight does not replace a newer one, and an account that is gone is left out', async () => {
    const { recordActivity } = await import('../../src/store/account-activity-store.ts')
    const db = { query: async ({ text }: Statement, values: readonly unknown[]) => sql(text, [...values]) as never }
    const accountId = accountIdOf(named)
    const [hour, later] = [new Date('2020-01-01T00:00:00Z'), new Date(Date.now() + 3_600_000)]
    await recordActivity(db, [
      { accountId, userAgent: 'old', seenAt: hour },
      { accountId: NOBODY, userAgent: 'nobody', seenAt: later },
    ])
    assert.equal((await shown(named)).client, 'certbot/5.1.0 (Linux)')
    await recordActivity(db, [
      { accountId, userAgent: 'older', seenAt: hour },
      { accountId, userAgent: 'newer', seenAt: later },
    ])
    assert.equal((await shown(named)).client, 'newer')
  })
})
