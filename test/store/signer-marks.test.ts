/** What the database lacks of a signer's records, and the mark up to which it lacks nothing. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, beforeEach, describe, test } from 'node:test'
import {
  type CertificateImport,
  createCertificateImport,
  recordUnseen,
  revokeListed,
} from '../../src/store/certificate-import.ts'
import { revokeCertificate } from '../../src/store/certificate-store.ts'
import { createCrlStore } from '../../src/store/crl-store.ts'
import { createSignerMarkStore, type SignerMarkStore, WHOLE_LINE } from '../../src/store/signer-mark-store.ts'
import { aName, anAccount, anIntent, anIssued, anOrder, aReadyOrder, inHours, newId, useStores } from './support.ts'

const ISSUER = Buffer.alloc(32, 7)
const RENEWED = Buffer.alloc(32, 8)
const LONG = 3600
const NONE = { missing: [], underWay: [] }

describe('the records of a signer', () => {
  const store = useStores()
  let marks: SignerMarkStore
  let imports: CertificateImport
  let chain: string
  before(async () => {
    marks = createSignerMarkStore(store.db)
    imports = createCertificateImport(store.db)
  })
  beforeEach(async () => {
    chain = randomBytes(16).toString('hex')
    await marks.mark(chain)
  })

  async function issued() {
    const { requester } = await anAccount(store)
    const intent = anIntent({ id: (await aReadyOrder(store, requester)).id, requester })
    assert.equal(await store.issuance.begin(intent), true)
    return intent
  }

  async function recorded() {
    const intent = await issued()
    assert.equal(await store.issuance.complete(anIssued(intent)), true)
    return intent
  }

  const unknown = () => anIntent(undefined).serialNumber.toString('hex')
  const stretch = (after: number, last: number) => ({ chain, after, last })
  const certificatesMark = async () => (await marks.mark(chain)).certificates

  test('name certificates that the database lacks; the mark moves only over pages that it has whole', async () => {
    const [one, two] = [await recorded(), await recorded()]
    const page = [one.serialNumber.toString('hex'), unknown(), two.serialNumber.toString('hex'), unknown()]
    assert.deepEqual(await marks.withoutCertificate(page, LONG, stretch(0, 9)), { missing: [1, 3], underWay: [] })
    assert.equal(await certificatesMark(), 0)
    assert.deepEqual(await marks.withoutCertificate([page[0] ?? '', page[2] ?? ''], LONG, stretch(0, 9)), NONE)
    assert.equal(await certificatesMark(), 9)
    assert.deepEqual(await marks.withoutCertificate([], LONG, stretch(9, 12)), NONE)
    assert.equal(await certificatesMark(), 12)
  })

  test('do not move the mark of a database that has gone back behind the beginning of the page', async () => {
    assert.deepEqual(await marks.withoutCertificate([], LONG, stretch(5, 9)), NONE)
    assert.equal(await certificatesMark(), 0)
    assert.deepEqual(await marks.withoutCertificate([], LONG, stretch(0, 9)), NONE)
    assert.deepEqual(await marks.withoutCertificate([], LONG, stretch(0, 7)), NONE, 'nor back')
    assert.equal(await certificatesMark(), 9)
  })

  test('tell an issuance under way, which stops the mark, until it is too old to be anybody’s work', async () => {
    const page = [(await issued()).serialNumber.toString('hex')]
    assert.deepEqual(await marks.withoutCertificate(page, LONG, stretch(0, 9)), { missing: [], underWay: [0] })
    assert.equal(await certificatesMark(), 0)
    assert.deepEqual(await marks.withoutCertificate(page, 0, undefined), { missing: [0], underWay: [] })
  })

  test('name entries that are not revoked under any certificate of their issuer, with the mark as above', async () => {
    const [revoked, valid] = [await recorded(), await recorded()]
    await revokeCertificate(store.db, {
      certificateId: revoked.certificateId,
      reason: 4,
      blockedKey: undefined,
      requester: undefined,
    })
    const entry = (serialNumber: string) => ({ serialNumber, revokedAt: inHours(-1), reason: 4 })
    const entries = [revoked.serialNumber.toString('hex'), valid.serialNumber.toString('hex'), unknown()].map(entry)
    const whole = { chain, after: { seq: 0, part: 0 }, last: { seq: 4, part: WHOLE_LINE } }
    const listed = [{ issuerFingerprints: [RENEWED, ISSUER], entries }]
    const missing = await marks.missingRevocations(listed, whole)
    assert.deepEqual(missing, [{ issuerFingerprints: [RENEWED, ISSUER], entries: entries.slice(1) }])
    assert.deepEqual((await marks.mark(chain)).revocations, { seq: 0, part: 0 })

    assert.deepEqual(
      await marks.missingRevocations([{ issuerFingerprints: [ISSUER], entries: entries.slice(0, 1) }], whole),
      [],
    )
    assert.deepEqual((await marks.mark(chain)).revocations, { seq: 4, part: WHOLE_LINE })
    const others = [{ issuerFingerprints: [RENEWED], entries: entries.slice(0, 1) }]
    assert.equal((await marks.missingRevocations(others, undefined)).length, 1, 'another issuer’s serial number')
  })

  test('name an entry whose reason became keyCompromise, which comes back with the date that the database has', async () => {
    const { certificateId, serialNumber } = await recorded()
    const revokedAt = inHours(-2)
    await revokeCertificate(store.db, {
      certificateId,
      reason: 4,
      blockedKey: undefined,
      requester: undefined,
      revokedAt,
    })
    const entry = { serialNumber: serialNumber.toString('hex'), revokedAt: inHours(-1) }
    const listed = (reason: number) => [{ issuerFingerprints: [ISSUER], entries: [{ ...entry, reason }] }]
    assert.deepEqual(await marks.missingRevocations(listed(3), undefined), [], 'no other reason replaces one')
    const missing = await marks.missingRevocations(listed(1), undefined)
    assert.deepEqual(missing, listed(1))
    assert.equal((await revokeListed(store.db, missing[0]!)).length, 1)
    assert.deepEqual(await marks.missingRevocations(listed(1), undefined), [])
    assert.deepEqual(await marks.missingRevocations(listed(4), undefined), [], 'what was recorded before lacks nothing')
    const [row] = await store.sql('SELECT revoked_at, revocation_reason FROM certificates WHERE id = $1', [
      certificateId,
    ])
    assert.deepEqual(row, { revoked_at: new Date(Math.floor(revokedAt.getTime() / 1000) * 1000), revocation_reason: 1 })
  })

  test('take a mark back that is beyond them, and none forward', async () => {
    await marks.withoutCertificate([], LONG, stretch(0, 9))
    await marks.missingRevocations([], { chain, after: { seq: 0, part: 0 }, last: { seq: 8, part: 2 } })
    await marks.lower(chain, { certificates: 12, revocations: 8 })
    const { certificates, revocations } = await marks.mark(chain)
    assert.deepEqual([certificates, revocations], [9, { seq: 8, part: 2 }])
    await marks.lower(chain, { certificates: 5, revocations: 3 })
    const lowered = await marks.mark(chain)
    assert.deepEqual([lowered.certificates, lowered.revocations], [5, { seq: 3, part: WHOLE_LINE }])
  })

  test('are behind once, until the database is whole', async () => {
    assert.equal(await marks.noteBehind(chain), true)
    assert.equal(await marks.noteBehind(chain), false)
    assert.ok((await marks.mark(chain)).behindSince)
    await marks.noteNothingMissing()
    assert.equal((await marks.mark(chain)).behindSince, undefined)
  })

  const forgotten = (
    over: { accountId?: string; orderId?: string; id?: string; serialNumber?: Buffer; issuedAt?: Date } = {},
  ) => {
    const { der, names, notBefore, notAfter } = anIssued(anIntent(undefined), [aName()])
    const row = {
      id: newId(),
      accountId: undefined,
      serialNumber: Buffer.from(unknown(), 'hex'),
      spkiSha256: randomBytes(32),
    }
    return { ...row, names, der, notBefore, notAfter, ...over }
  }
  const bringBack = (...certificates: ReturnType<typeof forgotten>[]) =>
    imports.record([ISSUER, RENEWED], certificates, { backend: undefined })
  const statusOf = async (id: string) =>
    (await store.sql('SELECT status, certificate_id FROM orders WHERE id = $1', [id]))[0]

  test('bring a certificate back whose key is proved to be compromised: its turn to be revoked comes again', async () => {
    const certificate = forgotten()
    const isDue = 'SELECT FROM blocked_keys WHERE spki_sha256 = $1 AND spread_at IS NULL'
    await store.sql(
      'INSERT INTO blocked_keys (spki_sha256, certificate_id, proved_at, spread_at) VALUES ($1, $2, now(), now())',
      [certificate.spkiSha256, newId()],
    )
    assert.equal((await store.sql(isDue, [certificate.spkiSha256])).length, 0)
    await bringBack(certificate)
    assert.equal((await store.sql(isDue, [certificate.spkiSha256])).length, 1)
  })

  test('bring a certificate back with its account, and with its order where that is open', async () => {
    const { requester } = await anAccount(store)
    const { accountId } = requester
    const [pending, ready] = [await anOrder(store, requester), await aReadyOrder(store, requester)]
    const certificates = [pending, ready].map(({ id: orderId }) => forgotten({ accountId, orderId }))
    const back = await bringBack(...certificates)
    assert.deepEqual(
      back.map(({ id, orderId }) => [id, orderId]).sort(),
      certificates.map(({ id, orderId }) => [id, orderId]).sort(),
    )
    for (const { id, orderId } of certificates)
      assert.deepEqual(await statusOf(orderId ?? ''), { status: 'valid', certificate_id: id })
    assert.equal((await bringBack(...certificates)).length, 0, 'a second time finds nothing')
  })

  test('bring a certificate back as issued when it was signed, and at its notBefore where that is not known', async () => {
    const signedAt = new Date('2026-02-03T04:05:06Z')
    const [known, unknown] = [forgotten({ issuedAt: signedAt }), forgotten()]
    await bringBack(known, unknown)
    const issuedAt = async (id: string) =>
      (await store.sql('SELECT issued_at FROM certificates WHERE id = $1', [id]))[0]?.['issued_at']
    assert.deepEqual(await issuedAt(known.id), signedAt)
    assert.deepEqual(await issuedAt(unknown.id), unknown.notBefore)
  })

  test('leave an order alone that is being issued, has its certificate or is of another account', async () => {
    const { requester } = await anAccount(store)
    const { accountId } = requester
    const begun = anIntent({ id: (await aReadyOrder(store, requester)).id, requester })
    await store.issuance.begin(begun)
    const ended = await recorded()
    const stranger = await aReadyOrder(store, (await anAccount(store)).requester)
    for (const orderId of [begun.order?.id, ended.order?.id, stranger.id, newId()]) {
      const before = await statusOf(orderId ?? '')
      const [back] = await bringBack(forgotten({ accountId, orderId: orderId ?? '' }))
      assert.deepEqual([back?.accountId, back?.orderId], [accountId, undefined])
      assert.deepEqual(await statusOf(orderId ?? ''), before)
    }
    assert.equal(await store.issuance.complete(anIssued(begun)), true)
  })

  test('do not give an order a certificate while it begins to be issued', async () => {
    const { requester } = await anAccount(store)
    const { id: orderId } = await aReadyOrder(store, requester)
    const intent = anIntent({ id: orderId, requester })
    const lock = { text: 'SELECT FROM orders WHERE id = $1 FOR UPDATE', values: [orderId] }
    const [begun, [back]] = await store.meetAt(lock, 2, () =>
      Promise.all([
        store.issuance.begin(intent),
        imports.record([ISSUER], [forgotten({ accountId: requester.accountId, orderId })], { backend: undefined }),
      ]),
    )
    assert.equal(begun, back?.orderId === undefined)
    if (begun) assert.equal(await store.issuance.complete(anIssued(intent)), true)
    assert.equal((await statusOf(orderId))?.status, 'valid')
  })

  test('bring a certificate back without what is gone, and under another id where its own is taken', async () => {
    const { certificateId } = await recorded()
    const [back] = await bringBack(forgotten({ id: certificateId, accountId: newId(), orderId: newId() }))
    assert.notEqual(back?.id, certificateId)
    assert.deepEqual([back?.accountId, back?.orderId], [undefined, undefined])
  })

  test('revoke at the time and for the reason of the list, block a compromised key, and make a list due', async () => {
    const [one, other] = [await recorded(), await recorded()]
    const revokedAt = new Date('2026-02-03T04:05:06Z')
    const unseen = unknown()
    const made = await recordUnseen(store.db, [ISSUER], inHours(24), [
      { id: newId(), serialNumber: Buffer.from(unseen, 'hex') },
      { id: newId(), serialNumber: one.serialNumber },
    ])
    assert.equal(made.length, 1)
    const due = async () =>
      (
        await store.sql(
          'SELECT coalesce(sum(changes), 0)::integer AS n FROM crl_changes WHERE issuer_fingerprint = $1',
          [ISSUER],
        )
      )[0]?.n
    const before = await due()
    const serials = [one.serialNumber.toString('hex'), other.serialNumber.toString('hex'), unseen]
    const entries = serials.map((serialNumber, at) => ({ serialNumber, revokedAt, reason: at === 0 ? 1 : 4 }))
    const listed = { issuerFingerprints: [RENEWED, ISSUER], entries }
    assert.equal((await revokeListed(store.db, listed)).length, 3)
    assert.equal((await revokeListed(store.db, listed)).length, 0)
    assert.equal(await due(), Number(before) + 3)
    assert.equal(await store.certificates.isKeyBlocked(one.spkiSha256), true)
    assert.equal(await store.certificates.isKeyBlocked(other.spkiSha256), false)
    assert.deepEqual((await store.certificates.findBySerial(one.serialNumber))?.revokedAt, revokedAt)
  })

  test('block a key whose certificate comes back after a revocation that called it compromised', async () => {
    const [compromised, superseded] = [forgotten(), forgotten()]
    const unseen = [compromised, superseded].map(({ serialNumber }) => ({ id: newId(), serialNumber }))
    await recordUnseen(store.db, [ISSUER], inHours(24), unseen)
    const entries = unseen.map(({ serialNumber }, at) => ({
      serialNumber: serialNumber.toString('hex'),
      revokedAt: inHours(-1),
      reason: at === 0 ? 1 : 4,
    }))
    assert.equal((await revokeListed(store.db, { issuerFingerprints: [ISSUER], entries })).length, 2)
    assert.equal(await store.certificates.isKeyBlocked(compromised.spkiSha256), false, 'nobody knows the key')
    assert.equal((await bringBack(compromised, superseded)).length, 2)
    assert.equal(await store.certificates.isKeyBlocked(compromised.spkiSha256), true)
    assert.equal(await store.certificates.isKeyBlocked(superseded.spkiSha256), false)
  })

  test('bring back in one page two certificates with a proved key, one of them revoked as compromised', async () => {
    const [revoked, other] = [forgotten(), forgotten()]
    other.spkiSha256 = revoked.spkiSha256
    await recordUnseen(store.db, [ISSUER], inHours(24), [{ id: newId(), serialNumber: revoked.serialNumber }])
    const entry = { serialNumber: revoked.serialNumber.toString('hex'), revokedAt: inHours(-1), reason: 1 }
    await revokeListed(store.db, { issuerFingerprints: [ISSUER], entries: [entry] })
    const key = 'SELECT certificate_id, spread_at IS NULL AS is_due FROM blocked_keys WHERE spki_sha256 = $1'
    const listedByFile = 'INSERT INTO blocked_keys (spki_sha256, proved_at, spread_at) VALUES ($1, now(), now())'
    await store.sql(listedByFile, [revoked.spkiSha256])
    assert.equal((await bringBack(revoked, other)).length, 2)
    const [found] = await store.sql(key, [revoked.spkiSha256])
    assert.equal(found?.['is_due'], true)
    assert.notEqual(found?.['certificate_id'], null)
  })

  test('raise the number of the next list, and never lower it', async () => {
    const crls = createCrlStore(store.db)
    const issuerKey = randomBytes(32)
    const scope = { issuerKey, shards: 1, shard: 0 }
    const ahead = BigInt(Math.floor(Date.now() / 1000) + 5000)
    await crls.raiseNumber(issuerKey, ahead)
    await crls.raiseNumber(issuerKey, ahead - 10n)
    assert.equal((await crls.begin(scope, [ISSUER], 86_400)).number, ahead + 1n)
  })
})
