/** The type of a certificate's key: the same as the parser says, whatever wrote the row, and without an error for any octets. */

import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import fc from 'fast-check'
import { listCertificates } from '../../src/admin/certificates/certificate-list.ts'
import { CERTIFICATE_FILTERS } from '../../src/admin/resources/certificates.ts'
import { valuesOf } from '../../src/admin/resources/filter.ts'
import { LAPSE_PROBLEMS } from '../../src/services/recovery.ts'
import { createCertificateImport, recordUnseen } from '../../src/store/certificate-import.ts'
import { createCsrIssuanceStore } from '../../src/store/csr-issuance-store.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { forAllAsync, propertyRuns } from '../support/property-runs.ts'
import { ALL_KEYS, aCertificate as anyCertificate, mutated, RSA_KEY, randomOctets } from '../unit/shared/pki/support.ts'
import { aCertificate, anAccount, aReadyOrder, newId, useStores } from './support.ts'

const spkiOf = ({ publicKey }: { publicKey: KeyObject }) => publicKey.export({ type: 'spki', format: 'der' })
const rsa = (bits: number) => spkiOf(generateKeyPairSync('rsa', { modulusLength: bits }))

/** Its key, and the filters that find it. */
const CASES: Readonly<Record<string, readonly [spki: () => Buffer, ...filters: string[]]>> = {
  'RSA-1024': [() => rsa(1024), 'RSA', 'RSA-below-2048', 'RSA-below-3072'],
  'RSA-2041': [() => rsa(2041), 'RSA', 'RSA-below-2048', 'RSA-below-3072'],
  'RSA-2048': [() => RSA_KEY.spki, 'RSA', 'RSA-below-3072', 'RSA-2048'],
  'RSA-3072': [() => rsa(3072), 'RSA', 'RSA-3072'],
  'RSA-4096': [() => rsa(4096), 'RSA', 'RSA-4096'],
  other: [() => spkiOf(generateKeyPairSync('ed448')), 'other'],
  ...Object.fromEntries(
    ALL_KEYS.filter((key) => key !== RSA_KEY).map((key) => [key.label, [() => key.spki, key.label] as const]),
  ),
}

describe('the type of a key', () => {
  const store = useStores(() => checked.end())
  let checked: DatabasePool
  const ders = new Map<string, Buffer>()
  before(async () => {
    checked = await openCheckedDatabase(store.settings)
    for (const [type, [spki]] of Object.entries(CASES)) ders.set(type, anyCertificate({ spki: spki() }))
    await store.certificates.saveIssuer(Buffer.alloc(32, 7), Buffer.from('certificate'), [Buffer.from('certificate')])
    for (const der of ders.values()) await imported(der)
  })

  async function imported(der: Buffer): Promise<string> {
    const id = newId()
    const facts = { names: ['a.example'], notBefore: new Date(), notAfter: new Date(Date.now() + 1e9) }
    const row = { id, accountId: undefined, serialNumber: randomBytes(16), spkiSha256: randomBytes(32), der, ...facts }
    await createCertificateImport(store.db).record([Buffer.alloc(32, 7)], [row], 'as its issuer')
    return id
  }

  const typeOf = async (id: string) =>
    (await listCertificates(checked, {}, undefined, 100)).rows.find((row) => row.id === id)?.key_type

  test('has a certificate that each filter finds', () =>
    assert.deepEqual(
      new Set(Object.values(CASES).flatMap(([, ...filters]) => filters)),
      new Set<string>(valuesOf(CERTIFICATE_FILTERS.key_type.kind)),
    ))

  for (const type of valuesOf(CERTIFICATE_FILTERS.key_type.kind))
    test(`${type} is a filter`, async () => {
      const { rows } = await listCertificates(checked, { key_type: type }, undefined, 100)
      const wanted = Object.entries(CASES).filter(([, [, ...filters]]) => filters.includes(type))
      assert.deepEqual(rows.map(({ key_type }) => key_type).sort(), wanted.map(([name]) => name).sort())
    })

  test('is that of a certificate that the signer, a backend or a former CA has issued', async () => {
    const der = Buffer.from(ders.get('P-384') ?? '')
    const { requester } = await anAccount(store)
    const { intent } = await aCertificate(store, requester, { issued: { der } })
    assert.equal(await typeOf(intent.certificateId), 'P-384')
    assert.equal(await typeOf(await byBackend(der)), 'P-384')
    assert.equal(await typeOf(await imported(der)), 'P-384')
  })

  async function byBackend(der: Buffer): Promise<string> {
    const { requester } = await anAccount(store)
    const csrIssuances = createCsrIssuanceStore(store.db)
    const [{ id }, certificateId] = [await aReadyOrder(store, requester), newId()]
    const times = { notBefore: new Date(), notAfter: new Date(Date.now() + 1e9) }
    const order = { id, requester }
    const intent = { certificateId, order, csr: Buffer.of(1), spkiSha256: Buffer.alloc(32), backend: 'a' }
    assert.ok(await csrIssuances.begin({ ...intent, ...times, instanceId: 7 }))
    const received = { serialNumber: randomBytes(16), issuerFingerprint: Buffer.alloc(32, 7), names: [], der, ...times }
    const outcome = await csrIssuances.record({ certificateId, ...received }, 7, LAPSE_PROBLEMS['key blocked'])
    assert.equal(outcome, 'recorded')
    return certificateId
  }

  test('is null where only the serial number is known, until the certificate comes', async () => {
    const serialNumber = randomBytes(16)
    const [id = ''] = await recordUnseen(store.db, [Buffer.alloc(32, 7)], new Date(Date.now() + 1e9), [
      { id: newId(), serialNumber },
    ])
    assert.equal(await typeOf(id), null)
  })

  test('is found by a function that takes any octets', async () => {
    const octets = fc.oneof(mutated([...ders.values()]), randomOctets(600))
    await forAllAsync(propertyRuns().numRuns, octets, async (der) => {
      const [row] = await store.sql<{ type: string | null }>('SELECT key_type($1) AS type', [der])
      assert.match(row?.type ?? 'null', /^(null|other|Ed25519|P-\d+|RSA--?\d+)$/)
    })
  })

  test('is found in a certificate of version 1, and behind long names', async () => {
    const der = ders.get('RSA-2048') as Buffer
    const version = Buffer.from('a003020102', 'hex')
    const at = der.indexOf(version)
    // The lengths of the two sequences around it are not compared with what they hold.
    const first = Buffer.concat([der.subarray(0, at), der.subarray(at + version.length)])
    const issuerNameDer = Buffer.concat([Buffer.of(0x30, 0x82, 0x10, 0), randomBytes(0x1000)])
    for (const one of [first, anyCertificate({ spki: RSA_KEY.spki, issuerNameDer })]) {
      const [row] = await store.sql<{ type: string }>('SELECT key_type($1) AS type', [one])
      assert.equal(row?.type, 'RSA-2048')
    }
  })
})
