/** How many certificates end soon, and whose, where they are so many that a part of the table is counted. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { expiringByAccount, expiryHistogram } from '../../src/admin/certificates/expiry-endpoints.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { useStores } from './support.ts'

/** More than are read. */
const CERTIFICATES = 110_000
/**
 * Each of the 2,000 pages is read or not by chance, with the probability p = 50,000 / 110,000: a standard deviation of
 * √((1 − p) / 2,000p) = 2.4 %. This is six of them, and a sample that is not scaled is 55 % off.
 */
const MOST_DEVIATION = 0.15
/** Fewer than an index finds quickly. */
const FEW = 3_000
const LARGE = '11111111-1111-4111-8111-111111111111'
/** Every third is the large account's; the others have one each. */
const fillWith = (first: number, last: number, days = 5) => `
  INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
  SELECT gen_random_uuid(), CASE WHEN n % 3 = 0 THEN '${LARGE}' ELSE gen_random_uuid() END, decode(md5(n::text), 'hex'),
         '\\x07', '{}', now(), now() + interval '${days} days', decode(md5(n::text), 'hex')
    FROM generate_series(${first}, ${last}) n`

describe('certificates that end soon, by account', () => {
  const store = useStores(() => db.end())
  let db: DatabasePool
  before(async () => {
    await store.sql(fillWith(1, FEW))
    db = await openCheckedDatabase(store.settings)
  })

  const sumOf = (found: Awaited<ReturnType<typeof expiringByAccount>>, place: number) =>
    found.accounts.reduce((sum, { expiring }) => sum + (expiring[place] ?? 0), found.others[place] ?? 0)

  test('few are counted one by one', async () => {
    const found = await expiringByAccount(db)
    assert.equal(found.isEstimate, false)
    assert.deepEqual(found.accounts[0], {
      account_id: LARGE,
      contacts: [],
      eab_kid: null,
      expiring: [0, FEW / 3, FEW / 3, FEW / 3],
    })
    assert.equal(found.accounts.length, 10)
    assert.deepEqual([sumOf(found, 0), sumOf(found, 3)], [0, FEW])
  })

  test('of many a part is counted and scaled, and that is said', async () => {
    await store.sql(fillWith(FEW + 1, CERTIFICATES))
    await store.sql('ANALYZE certificates')
    const found = await expiringByAccount(db)
    assert.equal(found.isEstimate, true)
    const close = (estimate: number, right: number) =>
      assert.ok(Math.abs(estimate / right - 1) < MOST_DEVIATION, `${estimate} instead of ${right}`)
    close(sumOf(found, 3), CERTIFICATES)
    close(found.accounts[0]?.expiring[1] ?? 0, CERTIFICATES / 3)
    assert.equal(found.accounts[0]?.account_id, LARGE)
    const { isEstimate, buckets } = await expiryHistogram(db, 'issuer', 60)
    assert.equal(isEstimate, true)
    close(
      buckets.reduce((sum, { certificates }) => sum + certificates, 0),
      CERTIFICATES,
    )
  })

  test('the few of a short time are counted one by one, however many there are besides', async () => {
    await store.sql(fillWith(CERTIFICATES + 1, CERTIFICATES + FEW, 2))
    const { isEstimate, buckets } = await expiryHistogram(db, 'issuer', 3)
    assert.deepEqual([isEstimate, buckets.map(({ certificates }) => certificates)], [false, [FEW]])
  })
})
