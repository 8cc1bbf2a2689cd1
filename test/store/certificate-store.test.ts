/** SQL of certificates, revocation, issuers and blocked keys. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, beforeEach, describe, test } from 'node:test'
import { type Requester, STALE_ACCOUNT } from '../../src/store/account-store.ts'
import { createCompromisedKeyStore } from '../../src/store/compromised-key-store.ts'
import {
  aCandidate,
  aCertificate,
  aName,
  anAccount,
  aReadyOrder,
  newId,
  preAuthorizing,
  useStores,
  winners,
} from './support.ts'

describe('certificates', () => {
  const store = useStores()
  let requester: Requester
  before(async () => {
    requester = (await anAccount(store)).requester
  })

  const recorded = async () => (await aCertificate(store, requester)).intent

  const revocation = (certificateId: string, over: object = {}) => ({
    certificateId,
    reason: 4,
    blockedKey: undefined,
    requester,
    ...over,
  })

  test('one is found by its serial number, and by each of a batch in its own place', async () => {
    const { certificateId, serialNumber } = await recorded()
    assert.equal((await store.certificates.findBySerial(serialNumber))?.id, certificateId)
    assert.equal(await store.certificates.findBySerial(randomBytes(16)), undefined)
    const found = await Promise.allSettled([
      store.certificates.find({ requester, certificateId: newId() }),
      store.certificates.find({ requester: { ...requester, keyVersion: 2 }, certificateId }),
      store.certificates.find({ requester, certificateId: 'no uuid' }),
      store.certificates.find({ requester, certificateId }),
    ])
    assert.deepEqual(
      found.map((result) =>
        result.status === 'rejected' ? 'failed' : typeof result.value === 'object' ? result.value.id : result.value,
      ),
      [undefined, STALE_ACCOUNT, 'failed', certificateId],
    )
  })

  describe('revocation', () => {
    test('is recorded once, with its reason and in whole seconds', async () => {
      const { certificateId, serialNumber } = await recorded()
      assert.equal(await store.certificates.revoke(revocation(certificateId)), true)
      assert.equal(await store.certificates.revoke(revocation(certificateId, { reason: 1 })), false)
      const revokedAt = (await store.certificates.findBySerial(serialNumber))?.revokedAt
      assert.equal(revokedAt?.getMilliseconds(), 0)
      const [row] = await store.sql('SELECT revocation_reason FROM certificates WHERE id = $1', [certificateId])
      assert.equal(row?.['revocation_reason'], 4)
    })

    test('by two instances: one wins', async () => {
      const { certificateId } = await recorded()
      const outcomes = await store.meetAt(
        { text: 'SELECT FROM certificates WHERE id = $1 FOR UPDATE', values: [certificateId] },
        2,
        () =>
          Promise.all([
            store.certificates.revoke(revocation(certificateId)),
            store.other.certificates.revoke(revocation(certificateId, { requester: undefined })),
          ]),
      )
      assert.equal(winners(outcomes), 1)
    })

    test('by an account whose key has changed or that is deactivated is stale and changes nothing', async () => {
      const { certificateId, serialNumber } = await recorded()
      const { requester: leaver } = await anAccount(store)
      await store.other.accounts.deactivate(leaver)
      for (const by of [{ ...requester, keyVersion: 2 }, leaver])
        assert.equal(await store.certificates.revoke(revocation(certificateId, { requester: by })), STALE_ACCOUNT)
      assert.equal((await store.certificates.findBySerial(serialNumber))?.revokedAt, undefined)
    })

    test('blocks the key when it is asked to, also of a certificate that is revoked already', async () => {
      const { certificateId } = await recorded()
      const [key, late] = [randomBytes(32), randomBytes(32)]
      assert.equal(await store.certificates.isKeyBlocked(key), false)
      await store.certificates.revoke(revocation(certificateId, { reason: 1, blockedKey: key, requester: undefined }))
      assert.equal(await store.certificates.isKeyBlocked(key), true)
      const again1 = revocation(certificateId, { reason: 1, blockedKey: late })
      assert.deepEqual(
        [await store.certificates.revoke(again1), await store.certificates.revoke(again1)],
        [true, false],
      )
      assert.equal(await store.certificates.isKeyBlocked(late), true)
      const again = await recorded()
      assert.equal(await store.certificates.revoke(revocation(again.certificateId, { blockedKey: key })), true)
    })

    test('moves a reason to keyCompromise with a key alone, and leaves the date; the CRL counts it', async () => {
      const { certificateId } = await recorded()
      const state = async () =>
        (
          await store.sql<{ at: Date; reason: number; changes: number }>(
            `SELECT revoked_at AS at, revocation_reason AS reason,
                    (SELECT sum(changes)::integer FROM crl_changes WHERE issuer_fingerprint = c.issuer_fingerprint) AS changes
               FROM certificates c WHERE id = $1`,
            [certificateId],
          )
        )[0]!
      const revokedAt = new Date(Date.now() - 60_000)
      await store.certificates.revoke(revocation(certificateId, { revokedAt }))
      const before = await state()
      assert.equal(await store.certificates.revoke(revocation(certificateId, { reason: 1 })), false)
      assert.deepEqual(await state(), before)
      const proof = revocation(certificateId, {
        reason: 1,
        blockedKey: randomBytes(32),
        isProved: true,
        requester: undefined,
      })
      assert.equal(await store.certificates.revoke(proof), true)
      assert.deepEqual(await state(), { at: before.at, reason: 1, changes: before.changes + 1 })
      assert.deepEqual(
        (await store.certificates.findRevocations([certificateId]))[0]?.reason,
        1,
        'what the signer is told',
      )
    })

    test('what a proof concerns is found once its key is not just being certified, and is done with', async () => {
      const keys = createCompromisedKeyStore(store.db)
      const spkiSha256 = randomBytes(32)
      const isDue = async () => (await keys.due()).some(({ key }) => key.equals(spkiSha256))
      const [first, second] = [await recorded(), await recorded()]
      const change = "UPDATE certificates SET spki_sha256 = $1, not_after = now() + interval '1 day' WHERE id = $2"
      await store.sql(change, [spkiSha256, second.certificateId])
      const proof = { reason: 1, blockedKey: spkiSha256, requester: undefined }
      await store.certificates.revoke(revocation(first.certificateId, proof))
      assert.equal(await isDue(), false, 'what an account says is no proof')
      await store.certificates.revoke(revocation(first.certificateId, { ...proof, isProved: true }))
      assert.equal(await isDue(), true)
      const { revoked, end } = await keys.revokeWindow([spkiSha256], '00000000-0000-0000-0000-000000000000')
      assert.deepEqual([revoked, end], [[second.certificateId], undefined])
      await keys.spread(await keys.due())
      assert.equal(await isDue(), false)
    })

    describe('by the walk for keys whose compromise is proved', () => {
      const FIRST_ID = '00000000-0000-0000-0000-000000000000'
      beforeEach(() => store.sql('DELETE FROM blocked_keys'))
      const proved = async () => {
        const spkiSha256 = randomBytes(32)
        const values = [spkiSha256, newId()]
        await store.sql(
          `INSERT INTO blocked_keys (spki_sha256, certificate_id, proved_at) VALUES ($1, $2, now() - interval '2 minutes')`,
          values,
        )
        return spkiSha256
      }
      const withKey = (spkiSha256: Buffer, count: number) =>
        store.sql(
          `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, spki_sha256)
           SELECT gen_random_uuid(), uuid_send(gen_random_uuid()), $1, '{}', now(), now() + interval '1 day',
                  uuid_send(gen_random_uuid()), $1 FROM generate_series(1, $2)`,
          [spkiSha256, count],
        )

      test('goes through thousands with one key in short statements, and forgets none', async () => {
        const keys = createCompromisedKeyStore(store.db)
        const spkiSha256 = await proved()
        await withKey(spkiSha256, 1_100)
        const pages: number[] = []
        for (let afterId: string | undefined = FIRST_ID; afterId !== undefined; ) {
          const { revoked, end } = await keys.revokeWindow([spkiSha256], afterId)
          pages.push(revoked.length)
          afterId = end
        }
        assert.deepEqual(pages, [500, 500, 100])
      })

      test('is repeated for a minute, since what was begun before the proof may not be committed yet', async () => {
        const keys = createCompromisedKeyStore(store.db)
        const spkiSha256 = await proved()
        const isSettled = async () => (await keys.due()).map((key) => key.isSettled)
        assert.deepEqual(await isSettled(), [true])
        const proveAt = (at: string) =>
          store.sql(`UPDATE blocked_keys SET proved_at = ${at} WHERE spki_sha256 = $1`, [spkiSha256])
        await proveAt('now()')
        assert.deepEqual(await isSettled(), [false])
        await proveAt("now() + interval '400 days'")
        assert.deepEqual(await isSettled(), [true], 'by a clock that was ahead')
      })

      test('finds what a clock that is ahead calls expired', async () => {
        const keys = createCompromisedKeyStore(store.db)
        const spkiSha256 = await proved()
        await withKey(spkiSha256, 1)
        await store.sql(`UPDATE certificates SET not_after = now() - interval '1 day' WHERE spki_sha256 = $1`, [
          spkiSha256,
        ])
        await store.sql(`INSERT INTO slow_clock (at) VALUES (now() - interval '2 days')`)
        assert.equal((await keys.revokeWindow([spkiSha256], FIRST_ID)).revoked.length, 1)
        await store.sql('DELETE FROM slow_clock')
      })

      test('a certificate that comes behind it keeps the key due, also while the walk just ends', async () => {
        const keys = createCompromisedKeyStore(store.db)
        const [early, late] = [await proved(), await proved()]
        const comes = { text: 'UPDATE blocked_keys SET spread_at = NULL WHERE spki_sha256 = $1', values: [late] }
        const due = await keys.due()
        await store.sql(comes.text, [early])
        await store.meetAt(comes, 1, () => keys.spread(due))
        const still = (await keys.due()).map(({ key }) => key.toString('hex'))
        assert.deepEqual(still.sort(), [early, late].map((key) => key.toString('hex')).sort())
        await keys.spread(await keys.due())
        assert.deepEqual(await keys.due(), [])
      })

      test('a block that was taken back meanwhile stays so', async () => {
        const keys = createCompromisedKeyStore(store.db)
        const spkiSha256 = await proved()
        await withKey(spkiSha256, 1)
        await store.sql('DELETE FROM blocked_keys WHERE spki_sha256 = $1', [spkiSha256])
        assert.deepEqual((await keys.revokeWindow([spkiSha256], FIRST_ID)).revoked, [])
        assert.equal(await store.certificates.isKeyBlocked(spkiSha256), false)
      })
    })
  })

  describe('authorized for all names (RFC 8555 §7.6)', () => {
    const names = { plain: aName(), wild: aName(), pending: aName(), gone: aName(), ip: '192.0.2.9' }
    let holder: Requester
    before(async () => {
      holder = (await anAccount(store)).requester
      await aReadyOrder(store, holder, {}, [names.plain, `*.${names.wild}`, names.gone])
      await aReadyOrder(
        store,
        holder,
        { authorizations: [aCandidate({ identifier: { type: 'ip', value: names.ip } })] },
        [names.ip],
      )
      await store.authorizations.create(
        preAuthorizing(holder, aCandidate({ identifier: { type: 'dns', value: names.pending } })),
      )
      await store.sql(
        "UPDATE authorizations SET expires_at = now() - interval '1 second' WHERE identifier_value = $1",
        [names.gone],
      )
    })

    const cases: [string, () => string[], boolean][] = [
      ['a name with a valid authorization', () => [names.plain], true],
      ['a wildcard with a valid wildcard authorization', () => [`*.${names.wild}`], true],
      ['an address with a valid authorization', () => [names.ip], true],
      ['several, all authorized', () => [names.plain, `*.${names.wild}`, names.ip], true],
      ['several, one of them pending', () => [names.plain, names.pending], false],
      ['several, one of them expired', () => [names.plain, names.gone], false],
      ['the name under a wildcard authorization', () => [names.wild], false],
      ['a wildcard under a name’s authorization', () => [`*.${names.plain}`], false],
      ['an unknown name', () => [aName()], false],
      ['no name at all', () => [], false],
    ]
    for (const [which, list, expected] of cases) {
      test(`${which}: ${expected}`, async () => {
        assert.equal(await store.certificates.isAuthorizedForAll(holder.accountId, list()), expected)
      })
    }

    test('another account is authorized for none of them', async () => {
      assert.equal(await store.certificates.isAuthorizedForAll(requester.accountId, [names.plain]), false)
    })
  })

  test('an issuer is remembered once, and its chain comes back in order, as it was given last', async () => {
    const fingerprint = randomBytes(32)
    const chain = [randomBytes(40), randomBytes(50)]
    await Promise.all([
      store.certificates.saveIssuer(fingerprint, chain[0] as Buffer, chain),
      store.other.certificates.saveIssuer(fingerprint, chain[0] as Buffer, chain),
    ])
    const known = () => store.certificates.findIssuerChain(fingerprint.toString('hex'))
    assert.deepEqual(await known(), chain)
    const crossSigned = [chain[0] as Buffer, randomBytes(60)]
    await store.certificates.saveIssuer(fingerprint, chain[0] as Buffer, crossSigned)
    assert.deepEqual(await known(), crossSigned)
    assert.equal(await store.certificates.findIssuerChain('00'), undefined)
  })
})
