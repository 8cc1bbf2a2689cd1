/** Renewal information of several CAs: each CA has rounds of its own, and the end of the service cuts them off. */

import assert from 'node:assert/strict'
import { before, beforeEach, describe, test } from 'node:test'
import type { UpstreamRenewal } from '../../src/ca/csr-backend.ts'
import { askUpstreamRenewals, type UpstreamRenewalsOptions } from '../../src/services/renewal.ts'
import { createUpstreamRenewalStore, type UpstreamRenewalStore } from '../../src/store/renewal-store.ts'
import { gate } from '../support/gate.ts'
import { cutOff, jumped, newId, useStores } from './support.ts'

const HOUR_MS = 3_600_000
const SUGGESTED: UpstreamRenewal = {
  start: new Date(Date.now() + HOUR_MS),
  end: new Date(Date.now() + 2 * HOUR_MS),
  explanationUrl: undefined,
  retryAfterMs: HOUR_MS,
}

describe('renewal information of CAs', () => {
  const fixture = useStores()
  let store: UpstreamRenewalStore
  let failed: string[]
  before(async () => {
    store = createUpstreamRenewalStore(fixture.db)
  })
  beforeEach(async () => {
    failed = []
    await fixture.sql('DELETE FROM upstream_renewals')
    await fixture.sql('DELETE FROM slow_clock')
  })

  async function waiting(backend: string, count = 1): Promise<void> {
    await fixture.sql(
      "INSERT INTO issuers (fingerprint, certificate, chain) VALUES ('', '', '{}') ON CONFLICT DO NOTHING",
    )
    for (let made = 0; made < count; made++) {
      const id = newId()
      await fixture.sql(
        `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
         VALUES ($1, $2, '', '{}', now(), now() + interval '1 day', $2)`,
        [id, Buffer.from(id)],
      )
      await fixture.sql('INSERT INTO upstream_renewals (certificate_id, backend) VALUES ($1, $2)', [id, backend])
    }
  }
  const answered = () =>
    fixture.sql<{ backend: string }>('SELECT backend FROM upstream_renewals WHERE window_start IS NOT NULL')

  type Asked = UpstreamRenewalsOptions['backends'] extends ReadonlyMap<string, infer B> ? B : never
  const round = (name: string, known: Record<string, Partial<Asked>>, signal = new AbortController().signal) =>
    askUpstreamRenewals(name, {
      backends: new Map(Object.entries(known).map(([key, one]) => [key, { retryAfterMs: () => 0, ...one }])),
      store,
      signal,
      onFailed: ({ message }) => void failed.push(message),
    })
  const well = { renewalInfo: async () => SUGGESTED }

  test('a CA that hangs, with many of them, keeps no other from its own', async () => {
    await waiting('hangs', 40)
    await waiting('well')
    const { opened: hanging, open: answer } = gate()
    const known = { hangs: { renewalInfo: () => hanging.then(() => undefined) }, well }
    const first = round('hangs', known)
    assert.equal(await round('well', known), 1)
    assert.deepEqual(await answered(), [{ backend: 'well' }])
    answer()
    assert.equal(await first, 16)
  })

  test('a CA that is left alone is not asked', async () => {
    await waiting('away')
    const away = { retryAfterMs: () => 1_000, renewalInfo: () => assert.fail('not asked') }
    assert.equal(await round('away', { away }), 0)
    assert.equal(await round('away', { away: well }), 1)
  })

  test('the end of the service is no failure: the next one asks again', async () => {
    await waiting('slow')
    const stopping = new AbortController()
    const renewalInfo = (_der: Buffer, signal: AbortSignal) => cutOff(signal, stopping)
    const asked = round('slow', { slow: { renewalInfo } }, stopping.signal)
    assert.equal(await asked, 1)
    assert.deepEqual(failed, [])
    assert.equal((await fixture.sql('SELECT FROM upstream_renewals')).length, 1)
  })

  describe('a certificate that no client renews any more', () => {
    const left = async () => (await fixture.sql('SELECT FROM upstream_renewals')).length

    for (const [what, change] of [
      ['has expired', "not_before = now() - interval '2 days', not_after = now() - interval '1 day'"],
      ['is revoked', 'revoked_at = now()'],
    ] as const)
      test(`${what}, and is forgotten`, async () => {
        await waiting('well')
        await fixture.sql(`UPDATE certificates SET ${change}`)
        assert.equal(await round('well', { well }), 0)
        assert.equal(await left(), 0)
      })

    test('is none where the clock of the database is ahead: its CA is asked on', async () => {
      await waiting('well')
      await fixture.sql(
        "UPDATE certificates SET not_before = now() - interval '400 days', not_after = now() - interval '300 days'",
      )
      await jumped(fixture, 400)
      assert.equal(await round('well', { well }), 1)
      assert.equal(await left(), 1)
    })
  })
})
