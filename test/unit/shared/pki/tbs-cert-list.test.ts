/** TBSCertList (RFC 5280 §5): what is written reads back the same, by our reader, by @peculiar/x509 and by openssl. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { sign } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { SIGNATURE_ALGORITHMS } from '../../../../src/shared/pki/algorithms.ts'
import { DerError } from '../../../../src/shared/pki/der.ts'
import { encodeHeader } from '../../../../src/shared/pki/der-writer.ts'
import { encodeCommonName } from '../../../../src/shared/pki/name.ts'
import {
  type CrlEntry,
  encodeCrlEntries,
  frameCertificateList,
  frameTbsCertList,
  type TbsCertListInput,
} from '../../../../src/shared/pki/tbs-cert-list.ts'
import {
  type CrlExtensions,
  type CrlHeader,
  parseCrlEntries,
  type ReadCrlEntry,
  TbsCertListReader,
} from '../../../../src/shared/pki/tbs-cert-list-reader.ts'
import { forAllIn, forAnyInput, propertyRuns } from '../../../support/property-runs.ts'
import { ALL_KEYS, hex, mutated, P256_KEY, randomOctets, type TestKey, x509 } from './support.ts'

const THIS_UPDATE = new Date('2026-05-01T12:00:00Z')

const anInput = (over: Partial<TbsCertListInput> = {}): TbsCertListInput => ({
  signatureAlgorithm: 'SHA256withECDSA',
  issuerNameDer: encodeCommonName('Test issuer'),
  authorityKeyIdentifier: Buffer.alloc(20, 7),
  thisUpdate: THIS_UPDATE,
  nextUpdate: new Date('2026-05-02T12:00:00Z'),
  number: 1n,
  ...over,
})

function tbsOf(input: TbsCertListInput, entries: readonly CrlEntry[]): Buffer {
  const content = encodeCrlEntries(entries)
  const { prefix, suffix, length } = frameTbsCertList(input, content.length)
  const tbs = Buffer.concat([prefix, content, suffix])
  assert.equal(tbs.length, length)
  return tbs
}

function crlOf(tbs: Buffer, key: TestKey): Buffer {
  const signature = sign(SIGNATURE_ALGORITHMS[key.signatureAlgorithm].hash, tbs, key.privateKey)
  const { prefix, suffix } = frameCertificateList(tbs.length, key.signatureAlgorithm, signature)
  return Buffer.concat([prefix, tbs, suffix])
}

interface Read {
  header: CrlHeader | undefined
  entries: { serial: string; revokedAt: Date; reason: number }[]
  extensions: CrlExtensions
}

/** Reads `tbs` in pieces that end at the given places. */
function readIn(tbs: Buffer, cuts: readonly number[]): Read {
  const read: Omit<Read, 'extensions'> = { header: undefined, entries: [] }
  const reader = new TbsCertListReader({
    header: (header) => {
      read.header = header
    },
    entry: (entry) => read.entries.push(plain(entry)),
  })
  const places = [...new Set([0, ...cuts.map((cut) => cut % (tbs.length + 1)), tbs.length])].sort((a, b) => a - b)
  for (let i = 1; i < places.length; i++) {
    // A copy that is overwritten afterwards: the reader must not look back into what it was given.
    const piece = Buffer.from(tbs.subarray(places[i - 1], places[i]))
    reader.push(piece)
    piece.fill(0xee)
  }
  return { ...read, extensions: reader.finish() }
}

const plain = ({ serialNumber, revokedAt, reason = 0 }: ReadCrlEntry) => ({
  serial: serialNumber.toString('hex').replace(/^00(?=[89a-f])/, ''),
  revokedAt: revokedAt.at,
  reason,
})

const REASONS = [0, 1, 2, 3, 4, 5, 6, 9, 10]
const anEntry: fc.Arbitrary<CrlEntry> = fc.record({
  serialNumber: fc
    .uint8Array({ minLength: 1, maxLength: 19 })
    .map((octets) => Buffer.from(octets))
    .filter((octets) => octets[0] !== 0),
  revokedAt: fc.integer({ min: -600_000_000, max: 4_000_000_000 }).map((seconds) => new Date(seconds * 1000)),
  reason: fc.constantFrom(...REASONS),
})
const someEntries = fc.array(anEntry, { maxLength: 40 })
const someCuts = fc.array(fc.nat(4000), { maxLength: 12 })

const asPlain = ({ serialNumber, revokedAt, reason }: CrlEntry) => ({
  serial: serialNumber.toString('hex'),
  revokedAt,
  reason,
})

describe('TBSCertList', () => {
  test('entries, header and extensions come back as they were written, wherever the pieces are cut', () =>
    forAllIn(
      propertyRuns(150),
      someEntries,
      someCuts,
      fc.bigInt({ min: 0n, max: 2n ** 150n }),
      fc.option(fc.stringMatching(/^https?:\/\/[a-z0-9]{1,12}\.example\/[!-~]{0,30}$/), { nil: undefined }),
      (entries, cuts, number, distributionPointUrl) => {
        const read = readIn(tbsOf(anInput({ number, distributionPointUrl }), entries), cuts)
        assert.deepEqual(read.entries, entries.map(asPlain))
        assert.equal(read.header?.version, 2)
        assert.deepEqual(read.header?.thisUpdate.at, THIS_UPDATE)
        assert.equal(BigInt(`0x${read.extensions.number?.toString('hex')}`), number)
        assert.deepEqual(read.extensions.authorityKeyIdentifier, Buffer.alloc(20, 7))
        assert.deepEqual(
          read.extensions.issuingDistributionPoint,
          distributionPointUrl && { critical: true, urls: [distributionPointUrl], isRestricted: false },
        )
      },
    ))

  test('@peculiar/x509 reads the same', () =>
    forAllIn(propertyRuns(60), someEntries, (entries) => {
      const crl = new x509.X509Crl(crlOf(tbsOf(anInput(), entries), P256_KEY))
      assert.deepEqual(crl.thisUpdate, THIS_UPDATE)
      const read = crl.entries.map(({ serialNumber, revocationDate, reason = 0 }) => ({
        serial: serialNumber.toLowerCase().replace(/^00(?=[89a-f])/, ''),
        revokedAt: revocationDate,
        reason,
      }))
      assert.deepEqual(read, entries.map(asPlain))
    }))

  for (const key of ALL_KEYS)
    test(`openssl reads a list signed with ${key.label}, entry by entry`, () => {
      const entries = REASONS.map((reason, index) => ({
        serialNumber: Buffer.from(`8${index}23456789abcdef`, 'hex'),
        revokedAt: new Date(Date.UTC(2026, 0, 1 + index)),
        reason,
      }))
      const { signatureAlgorithm } = key
      const crl = crlOf(tbsOf(anInput({ number: 4660n, signatureAlgorithm }), entries), key)
      const { status, stdout, stderr } = spawnSync('openssl', ['crl', '-inform', 'DER', '-noout', '-text'], {
        input: crl,
      })
      const text = String(stdout)
      assert.equal(status, 0, String(stderr))
      assert.match(text, /Version 2 \(0x1\)/)
      assert.match(text, /X509v3 CRL Number: \n +4660/)
      const found = [...text.matchAll(/Serial Number: ([0-9A-F]+)/g)].map(([, serial]) => serial)
      assert.deepEqual(
        found,
        entries.map(({ serialNumber }) => serialNumber.toString('hex').toUpperCase()),
      )
      assert.equal([...text.matchAll(/CRL Reason Code/g)].length, REASONS.length - 1)
    })

  test('dates from 2050 are GeneralizedTime (§5.1.2.6)', () => {
    const [entry] = parseCrlEntries(
      encodeCrlEntries([{ serialNumber: hex('01'), revokedAt: new Date('2050-01-01T00:00:00Z'), reason: 0 }]),
    )
    assert.equal(entry?.revokedAt.form, 'GeneralizedTime')
  })

  test('what no list can express is refused', () => {
    const revokedAt = THIS_UPDATE
    for (const [serialNumber, reason] of [
      ['', 0],
      ['00', 0],
      ['0'.repeat(42), 0],
      ['01', 7],
      ['01', 8],
      ['01', 11],
    ] as const)
      assert.throws(() => encodeCrlEntries([{ serialNumber: hex(serialNumber), revokedAt, reason }]), RangeError)
  })

  test('lengths of every size are written in their shortest form', () => {
    for (const [length, header] of [
      [0x7f, '307f'],
      [0x80, '308180'],
      [0xff, '3081ff'],
      [0x100, '30820100'],
      [0x10000, '3083010000'],
      [0x1000000, '308401000000'],
      [0xffffffff, '3084ffffffff'],
    ] as const)
      assert.equal(encodeHeader(0x30, length).toString('hex'), header)
  })

  test('reading fails with a DerError only, whatever the bytes and the cuts', () => {
    const originals = [
      tbsOf(anInput(), []),
      tbsOf(anInput({ distributionPointUrl: 'http://crl.test/1' }), [
        { serialNumber: hex('0102030405060708'), revokedAt: THIS_UPDATE, reason: 1 },
        { serialNumber: hex('8102030405060708'), revokedAt: THIS_UPDATE, reason: 0 },
      ]),
    ]
    const total = (bytes: Buffer, cuts: readonly number[]) => {
      let whole: string
      try {
        const { header: _, ...rest } = readIn(bytes, [])
        whole = JSON.stringify(rest)
      } catch (error) {
        assert.ok(error instanceof DerError, String(error))
        assert.throws(() => readIn(bytes, cuts), DerError, 'pieces make no difference')
        return
      }
      const { header: _, ...rest } = readIn(bytes, cuts)
      assert.equal(JSON.stringify(rest), whole)
    }
    forAnyInput(mutated(originals), someCuts, total)
    forAnyInput(randomOctets(80), someCuts, total)
  })
})
