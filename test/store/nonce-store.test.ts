/** Nonces that instances share: used once whoever asks, and never again when it cannot be proven. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { epochLifeSeconds, openSharedNonces, type SharedNonces } from '../../src/services/stored-nonces.ts'
import { createNonceStore, type NonceStore } from '../../src/store/nonce-store.ts'
import { isAuthentic, redeem } from '../support/clients/nonces.ts'
import { each } from '../support/each.ts'
import { useStores } from './support.ts'

const EXPIRY_SECONDS = 600
const LIFE_SECONDS = epochLifeSeconds(EXPIRY_SECONDS)
const makeKey = () => randomBytes(32)

describe('shared nonces', () => {
  const store = useStores()
  const sql = (text: string) => store.sql<Record<string, unknown>>(text)
  let one: NonceStore
  let two: NonceStore
  before(() => {
    one = createNonceStore(store.db)
    two = createNonceStore(store.otherDb)
  })

  const newestId = async () => (await one.epochs()).at(-1)?.id as number

  /** What a standby that lagged behind, or a restore to an earlier time, leaves: not the last row, and empty unlogged tables. */
  async function loseNewestEpoch(): Promise<void> {
    await sql(`DELETE FROM nonce_epochs WHERE id = ${await newestId()}`)
    for (let table = 0; table < 4; table++) await sql(`TRUNCATE nonce_redemptions_${table}`)
  }

  /** Of a thread that went on and one that starts now. */
  async function requireMutualAcceptance(old: SharedNonces): Promise<void> {
    const fresh = await openSharedNonces(two, EXPIRY_SECONDS)
    const now = Date.now()
    assert.equal(await redeem(fresh, old.issue(now), now), true)
    assert.equal(await redeem(old, fresh.issue(now), now), true)
  }

  test('without an epoch nothing is issued', async () => {
    await assert.rejects(openSharedNonces(one, EXPIRY_SECONDS), /no key for nonces/)
  })

  test('of all instances that want to make an epoch one does', async () => {
    const made = await Promise.all(
      Array.from({ length: 6 }, (_, i) => (i % 2 ? one : two).renew(makeKey, LIFE_SECONDS)),
    )
    assert.equal(made.filter(Boolean).length, 1)
    assert.equal((await one.epochs()).length, 1)
    assert.equal(await two.renew(makeKey, LIFE_SECONDS), false)
  })

  test('threads never issue the same nonce', async () => {
    const threads = await Promise.all([1, 2, 3, 4].map((i) => openSharedNonces(i % 2 ? one : two, EXPIRY_SECONDS)))
    const now = Date.now()
    const issued = threads.flatMap((thread) => Array.from({ length: 500 }, () => thread.issue(now)))
    assert.equal(new Set(issued).size, 2000)
    for (const nonce of issued) assert.match(nonce, /^[A-Za-z0-9_-]{23}$/)
  })

  test('a nonce of one instance is accepted by another, and by all of them together once', async () => {
    const [mine, yours] = [await openSharedNonces(one, EXPIRY_SECONDS), await openSharedNonces(two, EXPIRY_SECONDS)]
    const now = Date.now()
    for (let i = 0; i < 20; i++) {
      const nonce = mine.issue(now)
      assert.equal(isAuthentic(yours, nonce, now), true)
      const tries = Array.from({ length: 8 }, (_, n) => redeem(n % 2 ? mine : yours, nonce, now))
      assert.equal((await Promise.all(tries)).filter(Boolean).length, 1)
      assert.equal(await redeem(mine, nonce, now), false)
    }
  })

  test('many replays of many nonces in different orders do not get in each other’s way', async () => {
    const [mine, yours] = [await openSharedNonces(one, EXPIRY_SECONDS), await openSharedNonces(two, EXPIRY_SECONDS)]
    const now = Date.now()
    const nonces = Array.from({ length: 100 }, () => mine.issue(now))
    const results = await Promise.all([
      ...nonces.map((nonce) => redeem(mine, nonce, now)),
      ...nonces.toReversed().map((nonce) => redeem(yours, nonce, now)),
    ])
    assert.equal(results.filter(Boolean).length, 100)
  })

  test('another text, another character and an expired nonce are refused', async () => {
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    const now = Date.now()
    const nonce = nonces.issue(now)
    const altered = nonce.slice(0, 10) + (nonce[10] === 'A' ? 'B' : 'A') + nonce.slice(11)
    for (const text of ['', 'A', altered, nonce.slice(1), `${nonce}A`, `z${nonce.slice(1)}`]) {
      assert.equal(isAuthentic(nonces, text, now), false)
      assert.equal(await redeem(nonces, text, now), false)
    }
    assert.equal(isAuthentic(nonces, nonce, now + (EXPIRY_SECONDS - 2) * 1000), true)
    assert.equal(isAuthentic(nonces, nonce, now + (EXPIRY_SECONDS + 2) * 1000), false)
  })

  test('an epoch whose redemptions are lost accepts nothing more, and is followed by another at once', async () => {
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    const now = Date.now()
    const [used, fresh] = [nonces.issue(now), nonces.issue(now)]
    assert.equal(await redeem(nonces, used, now), true)
    const lost = await newestId()
    await sql(`TRUNCATE nonce_redemptions_${lost % 4}`)

    assert.equal(await redeem(nonces, used, now), false)
    assert.equal(await redeem(nonces, fresh, now), false)
    await nonces.refresh()
    assert.equal(isAuthentic(nonces, nonces.issue(now), now), false, 'between two epochs there is no valid nonce')

    assert.equal(await one.renew(makeKey, LIFE_SECONDS), true)
    await nonces.refresh()
    assert.ok((await newestId()) > lost)
    assert.equal(isAuthentic(nonces, fresh, now), false)
    assert.equal(await redeem(nonces, nonces.issue(Date.now()), Date.now()), true)
  })

  test('an epoch that a restore has forgotten stays lost: no nonce of it passes, before the threads know and after', async () => {
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    const now = Date.now()
    const used = nonces.issue(now)
    assert.equal(await redeem(nonces, used, now), true)
    await loseNewestEpoch()
    assert.equal(await two.renew(makeKey, LIFE_SECONDS), true)

    assert.equal(await redeem(nonces, used, now), false, 'the thread still has the lost epoch')
    await nonces.refresh()
    assert.equal(await redeem(nonces, used, now), false)
    await requireMutualAcceptance(nonces)
  })

  test('an epoch that comes back under its number with another key is another epoch', async () => {
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    const now = Date.now()
    const used = nonces.issue(now)
    assert.equal(await redeem(nonces, used, now), true)
    const id = await newestId()
    await loseNewestEpoch()
    // As the release before this one numbers them.
    await sql(
      `INSERT INTO nonce_epochs (id, key, active_from) VALUES (${id}, '\\x${makeKey().toString('hex')}', now())`,
    )
    await sql(
      `INSERT INTO nonce_redemptions_${id % 4} SELECT ${id}, -1, 'nonce_redemptions_${id % 4}'::regclass::oid::bigint`,
    )

    await nonces.refresh()
    assert.equal(isAuthentic(nonces, used, now), false)
    await requireMutualAcceptance(nonces)
  })

  test('redemptions that were copied back into a new table do not count as known', async () => {
    const id = await newestId()
    const table = `nonce_redemptions_${id % 4}`
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    const nonce = nonces.issue(Date.now())
    // As a logical restore does.
    await sql(`ALTER TABLE ${table} RENAME TO former`)
    await sql(`CREATE UNLOGGED TABLE ${table} (LIKE former INCLUDING ALL)`)
    await sql(`INSERT INTO ${table} SELECT * FROM former`)
    assert.equal(await createNonceStore(store.otherDb).redeem({ epochId: id, tick: 1, counter: 1 }), false)
    assert.equal(await two.epochs().then((epochs) => epochs.some((epoch) => epoch.id === id)), false)
    await sql('DROP TABLE former')
    await one.renew(makeKey, LIFE_SECONDS)
    await nonces.refresh()
    assert.equal(isAuthentic(nonces, nonce, Date.now()), false)
  })

  test('an old epoch is followed by one that begins later, and both are accepted', async () => {
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    const before = nonces.issue(Date.now())
    const old = await newestId()
    await sql(`UPDATE nonce_epochs SET made_at = made_at - interval '${LIFE_SECONDS} seconds' WHERE id = ${old}`)
    assert.equal(await one.renew(makeKey, LIFE_SECONDS), true)
    await nonces.refresh()
    const during = nonces.issue(Date.now())
    assert.equal(during[0], before[0], 'the new epoch is not in use yet')
    const later = nonces.issue(Date.now() + 6_000)
    assert.notEqual(later[0], before[0])
    assert.equal(await redeem(nonces, later, Date.now()), true)
  })

  test('the sweep empties the tables of epochs whose nonces have all expired', async () => {
    const newest = await newestId()
    const filled = async () =>
      (await sql(`SELECT count(*)::integer AS n FROM nonce_redemptions_${(newest - 1) % 4}`))[0]?.['n']
    assert.equal(await one.sweep(EXPIRY_SECONDS), 0)
    assert.ok(Number(await filled()) > 0)
    await sql(
      `UPDATE nonce_epochs SET active_from = now() - interval '${EXPIRY_SECONDS + 1} seconds' WHERE id = ${newest}`,
    )
    assert.ok((await one.sweep(EXPIRY_SECONDS)) >= 1)
    assert.equal(await filled(), 0)
    assert.deepEqual(each(await one.epochs(), 'id'), [newest])
  })

  test('four epochs later the same table is used again', async () => {
    for (let i = 0; i < 5; i++) {
      await sql(`UPDATE nonce_epochs SET made_at = now() - interval '${LIFE_SECONDS + 1} seconds', active_from = now()`)
      assert.equal(await one.renew(makeKey, LIFE_SECONDS), true)
    }
    assert.ok((await one.epochs()).length <= 4)
    const nonces = await openSharedNonces(one, EXPIRY_SECONDS)
    assert.equal(await redeem(nonces, nonces.issue(Date.now()), Date.now()), true)
  })
})
