/** Events of serial numbers whose certificate nobody has seen, and of its late import. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createCertificateImport, recordUnseen } from '../../src/store/certificate-import.ts'
import { revokeCertificate } from '../../src/store/certificate-store.ts'
import { anAccount, anIntent, aReadyOrder, inHours, newId, openStores, type StoreFixture } from '../store/support.ts'

const ERROR = { type: 'urn:ietf:params:acme:error:serverInternal', detail: 'no answer', status: 500 }
/** cessationOfOperation (RFC 5280 §5.3.1). */
const REASON = 5

describe('a certificate that nobody has seen', () => {
  let store: StoreFixture
  before(async () => {
    store = await openStores()
    // Nobody delivers to it, so its events can be read.
    await store.sql(
      "INSERT INTO event_consumers (name, kinds) VALUES ('reader', '{certificate.issuance,certificate.revocation}')",
    )
  })
  after(() => store.close())

  const period = () => ({ notBefore: inHours(-1), notAfter: inHours(24) })
  const told = async (serialNumber: Buffer) =>
    (
      await store.sql<{ kind: string; domains: string[]; revoked: boolean }>(
        `SELECT kind, data #> '{row,names}' AS domains, kind = 'certificate.issuance' AND data #>> '{row,revoked_at}' IS NOT NULL AS revoked
           FROM event_deliveries WHERE data #>> '{row,serial_number}' = $1 ORDER BY sequence`,
        [`\\x${serialNumber.toString('hex')}`],
      )
    ).map(({ kind, domains, revoked }) => [kind.replace('certificate.', ''), domains.join(), revoked])

  /** An issuance that the signer has not answered, and that has been given up. */
  async function abandoned() {
    const { requester } = await anAccount(store)
    const intent = anIntent({ id: (await aReadyOrder(store, requester)).id, requester })
    assert.equal(await store.issuance.begin(intent), true)
    assert.equal(await store.issuance.abandon(intent.certificateId, ERROR, period()), true)
    return intent
  }

  /** An entry of a CRL that an older database had published. */
  async function listed() {
    const entry = {
      id: newId(),
      serialNumber: anIntent(undefined).serialNumber,
      issuerFingerprint: Buffer.alloc(32, 7),
    }
    assert.deepEqual(await recordUnseen(store.db, [entry.issuerFingerprint], inHours(24), [entry]), [entry.id])
    const nobody = { blockedKey: undefined, requester: undefined }
    const revokedAt = inHours(-2)
    await revokeCertificate(store.db, { certificateId: entry.id, reason: REASON, revokedAt, ...nobody })
    return entry
  }

  for (const [which, unseen] of Object.entries({ 'an abandoned issuance': abandoned, 'an entry of a CRL': listed }))
    test(`${which} announces the revocation alone; an import announces issuance and revocation, in this order`, async () => {
      const { serialNumber, issuerFingerprint } = await unseen()
      assert.deepEqual(await told(serialNumber), [['revocation', '', false]])

      const { account } = await anAccount(store)
      const certificate = {
        id: newId(),
        accountId: account.id,
        serialNumber,
        names: ['late.example'],
        ...period(),
        der: Buffer.from('a certificate'),
        spkiSha256: Buffer.alloc(32, 1),
      }
      const imports = createCertificateImport(store.db)
      const record = () => imports.record([issuerFingerprint], [certificate], 'as its issuer')
      assert.equal((await record()).length, 1)
      assert.deepEqual((await told(serialNumber)).slice(1), [
        ['issuance', 'late.example', true],
        ['revocation', 'late.example', false],
      ])
      assert.equal((await record()).length, 0)
      assert.equal((await told(serialNumber)).length, 3)
    })
})
