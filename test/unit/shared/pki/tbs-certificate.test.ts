import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseSpki, subjectKeyIdentifier } from '../../../../src/shared/pki/algorithms.ts'
import {
  parseCertificate,
  parseTbsCertificate,
  serialNumberHex,
  type TbsCertificate,
} from '../../../../src/shared/pki/certificate.ts'
import { DerError, DerReader, TAG } from '../../../../src/shared/pki/der.ts'
import { encodeOid } from '../../../../src/shared/pki/der-writer.ts'
import { keyUsagesFor } from '../../../../src/shared/pki/extensions.ts'
import { commonNamesOf, encodeCommonName } from '../../../../src/shared/pki/name.ts'
import { EXTENDED_KEY_USAGES, EXTENSION, type ExtendedKeyUsage, KEY_USAGES } from '../../../../src/shared/pki/oids.ts'
import { buildTbsCertificate, type TbsCertificateInput } from '../../../../src/shared/pki/tbs-certificate.ts'
import { CN, der, extension, sequence, TRUE, text } from '../../../corpus/der.ts'
import { forAllIn, forAnyInput, propertyRuns } from '../../../support/property-runs.ts'
import { errorOf, unlessRefused } from '../../../support/refusals.ts'
import {
  ALL_KEYS,
  aCertificate,
  aTbsInput,
  hex,
  mutated,
  NOT_AFTER,
  NOT_BEFORE,
  P256_KEY,
  RSA_KEY,
  randomOctets,
  x509,
} from './support.ts'

const FULL: Partial<TbsCertificateInput> = {
  commonName: 'a.example',
  dnsNames: ['a.example', '*.b.example'],
  ipAddresses: ['192.0.2.1', '2001:db8::1'],
  keyUsages: ['digital_signature', 'key_agreement', 'decipher_only'],
  extendedKeyUsages: ['server_auth', 'client_auth'],
  crlDistributionPointUrls: ['http://crl.example/1', 'http://crl.example/2'],
  caIssuersUrls: ['http://ca.example/ca.der'],
  ocspUrls: ['http://ocsp.example/'],
  policyOids: ['2.23.140.1.2.1', '1.3.6.1.4.1.99999.1'],
}

const roundTrip = (overrides: Partial<TbsCertificateInput> = {}) =>
  parseTbsCertificate(buildTbsCertificate(aTbsInput(overrides)))
const extensionOf = (tbs: TbsCertificate, oid: string) => tbs.extensions.find((extension) => extension.oid === oid)

describe('building a leaf TBSCertificate (RFC 5280 §4.1)', () => {
  test('every part that goes in is read back', () => {
    const tbs = roundTrip(FULL)
    assert.equal(tbs.version, 3)
    assert.equal(serialNumberHex(tbs.serialNumber), '8123456789abcdef0123456789abcdef')
    assert.equal(tbs.serialNumber[0], 0)
    assert.equal(tbs.signatureAlgorithm.algorithm, 'SHA256withECDSA')
    assert.deepEqual(tbs.issuerDer, encodeCommonName('Test issuer'))
    assert.deepEqual(commonNamesOf(tbs.subject), ['a.example'])
    assert.deepEqual([tbs.notBefore, tbs.notAfter], [NOT_BEFORE, NOT_AFTER])
    assert.deepEqual(tbs.spki.der, P256_KEY.spki)
    assert.deepEqual(tbs.authorityKeyIdentifier, Buffer.alloc(20, 7))
    assert.deepEqual(tbs.subjectKeyIdentifier, subjectKeyIdentifier(parseSpki(P256_KEY.spki).keyBits))
    assert.equal(tbs.isCa, false)
    assert.equal(tbs.pathLength, undefined)
    const { commonName: _, ...lists } = FULL
    for (const [name, list] of Object.entries(lists)) assert.deepEqual(tbs[name as keyof TbsCertificate], list, name)
    assert.deepEqual(tbs.unknownCriticalExtensions, [])
  })

  test('optional extensions are left out, not written empty', () => {
    const tbs = roundTrip({ keyUsages: [], extendedKeyUsages: [] })
    const found = tbs.extensions.map(({ oid }) => oid).sort()
    assert.deepEqual(
      found,
      [
        EXTENSION.authorityKeyIdentifier,
        EXTENSION.basicConstraints,
        EXTENSION.subjectAltName,
        EXTENSION.subjectKeyIdentifier,
      ].sort(),
    )
  })

  test('basicConstraints and keyUsage are critical, the identifiers are not', () => {
    const tbs = roundTrip(FULL)
    const critical = tbs.extensions.filter((extension) => extension.critical).map(({ oid }) => oid)
    assert.deepEqual(critical, [EXTENSION.keyUsage, EXTENSION.basicConstraints])
  })

  // RFC 5280 §4.2.1.6
  test('the SAN is critical exactly when the subject is empty', () => {
    assert.equal(extensionOf(roundTrip(), EXTENSION.subjectAltName)?.critical, true)
    assert.deepEqual(roundTrip().subjectDer, hex('3000'))
    assert.equal(extensionOf(roundTrip({ commonName: 'a.example' }), EXTENSION.subjectAltName)?.critical, false)
  })

  // RFC 7093 §2, method 1
  test('the subject key identifier is a truncated SHA-256 of the key bits alone', () =>
    assert.equal(subjectKeyIdentifier(Buffer.from('abc')).toString('hex'), 'ba7816bf8f01cfea414140de5dae2223b00361a3'))

  const refused: [string, Partial<TbsCertificateInput>][] = [
    ['no names', { dnsNames: [] }],
    ['a serial number of zero', { serialNumber: hex('0000') }],
    ['an empty serial number', { serialNumber: hex('') }],
    ['a serial number of 21 octets', { serialNumber: Buffer.alloc(21, 1) }],
    ['a serial number of 20 octets with its top bit set', { serialNumber: Buffer.alloc(20, 0x80) }],
    ['a name outside ASCII', { dnsNames: ['bücher.example'] }],
    ['an address that is none', { ipAddresses: ['192.0.2'] }],
    ['a commonName of 65 characters', { commonName: 'a'.repeat(65) }],
    ['a policy that is no OID', { policyOids: ['x'] }],
    ['a time before 1950', { notBefore: new Date('1949-01-01') }],
  ]
  for (const [what, overrides] of refused)
    test(`refuses ${what}`, () => assert.throws(() => buildTbsCertificate(aTbsInput(overrides)), RangeError))

  test('refuses a key that is no SubjectPublicKeyInfo', () =>
    assert.throws(() => buildTbsCertificate(aTbsInput({ spki: hex('3000') })), DerError))

  test('100 names of 250 characters fit', () => {
    const dnsNames = Array.from(
      { length: 100 },
      (_, index) =>
        `${String(index).padStart(3, '0')}.${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(56)}.example`,
    )
    assert.deepEqual(roundTrip({ dnsNames }).dnsNames, dnsNames)
  })

  test('building what was read gives the same bytes', () => {
    const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?$/)
    const url = label.map((text) => `http://${text}.example/`)
    const input = fc.record({
      serialNumber: fc.uint8Array({ minLength: 1, maxLength: 19 }).map((octets) => Buffer.from([1, ...octets])),
      commonName: fc.option(label, { nil: undefined }),
      dnsNames: fc.array(label, { minLength: 1, maxLength: 8 }),
      ipAddresses: fc.array(fc.oneof(fc.ipV4(), fc.ipV6()), { maxLength: 3 }),
      keyUsages: fc.subarray([...KEY_USAGES]),
      extendedKeyUsages: fc.subarray(Object.keys(EXTENDED_KEY_USAGES) as ExtendedKeyUsage[]),
      crlDistributionPointUrls: fc.array(url, { maxLength: 2 }),
      caIssuersUrls: fc.array(url, { maxLength: 2 }),
      ocspUrls: fc.array(url, { maxLength: 2 }),
      policyOids: fc.subarray(['2.23.140.1.2.1', '1.2.3', '2.25.1']),
      spki: fc.constantFrom(...ALL_KEYS.map(({ spki }) => spki)),
      notAfter: fc.constantFrom(NOT_AFTER, new Date('2049-12-31T23:59:59Z'), new Date('2050-01-01T00:00:00Z')),
    })
    forAllIn(propertyRuns(100), input, (overrides) => {
      const der = buildTbsCertificate(aTbsInput(overrides))
      const tbs = parseTbsCertificate(der)
      const again = buildTbsCertificate(
        aTbsInput({
          ...tbs,
          spki: tbs.spki.der,
          signatureAlgorithm: tbs.signatureAlgorithm.algorithm!,
          issuerNameDer: tbs.issuerDer,
          commonName: commonNamesOf(tbs.subject)[0],
          keyUsages: tbs.keyUsages,
          extendedKeyUsages: tbs.extendedKeyUsages as ExtendedKeyUsage[],
          authorityKeyIdentifier: tbs.authorityKeyIdentifier!,
        }),
      )
      assert.deepEqual(again, der)
    })
  })

  test('a list of usages for all key types is narrowed to what the key can do', () => {
    const usages = ['digital_signature', 'key_encipherment', 'key_agreement', 'key_cert_sign'] as const
    assert.deepEqual(keyUsagesFor('rsa', usages), ['digital_signature', 'key_encipherment'])
    assert.deepEqual(keyUsagesFor('ec', usages), ['digital_signature', 'key_agreement'])
    assert.deepEqual(keyUsagesFor('ed25519', usages), ['digital_signature'])
  })
})

/** The TBSCertificate of `aTbsInput`, its members given one by one and replaceable. */
function tbsOf(replace: Record<string, Buffer | undefined>, extra: Buffer = Buffer.alloc(0)): Buffer {
  const reader = new DerReader(buildTbsCertificate(aTbsInput())).sequence()
  const names = ['version', 'serial', 'signature', 'issuer', 'validity', 'subject', 'spki', 'extensions']
  const members = names.map((name) => {
    const original = reader.any()
    return name in replace ? (replace[name] ?? Buffer.alloc(0)) : original
  })
  return sequence(...members, extra)
}

const extensionsOf = (...list: [oid: string, critical: boolean, value: string][]): Buffer =>
  der(
    0xa3,
    sequence(
      ...list.map(([oid, critical, value]) =>
        extension(der(TAG.oid, encodeOid(oid)), hex(value), critical ? TRUE : undefined),
      ),
    ),
  )

const having = (...extensions: Parameters<typeof extensionsOf>) => tbsOf({ extensions: extensionsOf(...extensions) })
const utcTime = text(TAG.utcTime, '260201000000Z')

describe('reading a TBSCertificate', () => {
  test('a critical extension that is not known is reported, one that is not critical is only listed', () => {
    const tbs = parseTbsCertificate(having(['1.2.3', true, '0500'], ['1.2.4', false, '0500']))
    assert.deepEqual(tbs.unknownCriticalExtensions, ['1.2.3'])
    assert.deepEqual(tbs.extensions, [
      { oid: '1.2.3', critical: true, value: hex('0500') },
      { oid: '1.2.4', critical: false, value: hex('0500') },
    ])
  })

  test('the authority of a CA is read', () => {
    const tbs = parseTbsCertificate(having([EXTENSION.basicConstraints, true, '30060101ff020100']))
    assert.equal(tbs.isCa, true)
    assert.equal(tbs.pathLength, 0)
  })

  test('the wrong time form is reported as it stood', () => {
    const validity = sequence(text(TAG.generalizedTime, '20260101000000Z'), utcTime)
    const tbs = parseTbsCertificate(tbsOf({ validity }))
    assert.equal(tbs.notBeforeForm, 'GeneralizedTime')
    assert.equal(tbs.notAfterForm, 'UTCTime')
  })

  test('certificates without extensions are read as v1', () => {
    const tbs = parseTbsCertificate(tbsOf({ version: undefined, extensions: undefined }))
    assert.equal(tbs.version, 1)
    assert.deepEqual(tbs.extensions, [])
  })

  test('distribution points and access descriptions of other forms add no URL', () => {
    const relative = der(0xa0, der(0xa1, sequence(CN, text(0x0c, 'a'))))
    const point = sequence(relative, hex('81020780'), der(0xa2, der(0xa4, encodeCommonName('Issuer'))))
    const tbs = parseTbsCertificate(
      having(
        [EXTENSION.crlDistributionPoints, false, sequence(point).toString('hex')],
        [EXTENSION.authorityInfoAccess, false, '300b300906032a030482026161'],
      ),
    )
    assert.deepEqual([tbs.crlDistributionPointUrls, tbs.ocspUrls, tbs.caIssuersUrls], [[], [], []])
  })

  test('an authority key identifier by issuer and serial names no key', () => {
    const value = sequence(der(0xa1, der(0xa4, encodeCommonName('Issuer'))), hex('820105'))
    const tbs = parseTbsCertificate(having([EXTENSION.authorityKeyIdentifier, false, value.toString('hex')]))
    assert.equal(tbs.authorityKeyIdentifier, undefined)
  })

  const refused: [string, Buffer, RegExp][] = [
    ['v1 spelled out', tbsOf({ version: hex('a003020100') }), /version/],
    ['version 4', tbsOf({ version: hex('a003020103') }), /version/],
    ['extensions in v1', tbsOf({ version: undefined }), /only a v3/],
    ['extensions in v2', tbsOf({ version: hex('a003020101') }), /only a v3/],
    ['an empty list of extensions', tbsOf({ extensions: hex('a3023000') }), /Extensions is empty/],
    ['an extension that stands twice', having(['1.2.3', false, ''], ['1.2.3', true, '']), /stands twice/],
    ['a subject unique identifier', tbsOf({ extensions: hex('82020001') }), /unique identifiers/],
    ['a member too many', tbsOf({}, hex('0500')), /TBSCertificate has unexpected content/],
    ['trailing bytes', Buffer.concat([tbsOf({}), hex('00')]), /TBSCertificate has unexpected content/],
    ['a third time', tbsOf({ validity: sequence(utcTime, utcTime, utcTime) }), /Validity has unexpected/],
    ['a padded serial number', tbsOf({ serial: hex('02020001') }), /not minimal/],
    ['cA FALSE spelled out', having([EXTENSION.basicConstraints, true, '3003 010100']), /cA FALSE/],
    [
      'a trailing byte in an extension',
      having([EXTENSION.subjectKeyIdentifier, false, '040107 00']),
      /unexpected content/,
    ],
    ['an extended key usage of nothing', having([EXTENSION.extendedKeyUsage, false, '3000']), /empty/],
    ['distribution points of nothing', having([EXTENSION.crlDistributionPoints, false, '3000']), /empty/],
    ['access descriptions of nothing', having([EXTENSION.authorityInfoAccess, false, '3000']), /empty/],
    ['policies of nothing', having([EXTENSION.certificatePolicies, false, '3000']), /empty/],
    [
      'a policy twice',
      having([EXTENSION.certificatePolicies, false, '300c 3004 06022a03 3004 06022a03']),
      /stands twice/,
    ],
  ]
  for (const [what, der, message] of refused)
    test(`refuses ${what}`, () => assert.throws(() => parseTbsCertificate(der), errorOf(DerError, message)))

  test('fails only with DerError on random bytes and bytes near a valid certificate', () => {
    const tbs = [buildTbsCertificate(aTbsInput(FULL)), buildTbsCertificate(aTbsInput({ spki: RSA_KEY.spki }))]
    let read = 0
    forAnyInput(fc.oneof(randomOctets(100), mutated(tbs)), (bytes) => {
      if (unlessRefused(DerError, () => parseTbsCertificate(bytes))) read++
    })
    assert.ok(read > 10, `only ${read} mutated certificates were read`)
  })

  for (const issuer of ALL_KEYS)
    test(`agrees with @peculiar/x509 and node:crypto on a certificate signed by ${issuer.label}`, () => {
      const der = aCertificate({ ...FULL, spki: issuer.spki }, issuer)
      const { tbs, signature } = parseCertificate(der)
      const other = new x509.X509Certificate(der)
      const node = new X509Certificate(der)
      assert.equal(other.serialNumber, serialNumberHex(tbs.serialNumber))
      assert.equal(node.serialNumber.toLowerCase(), serialNumberHex(tbs.serialNumber))
      assert.deepEqual([other.notBefore, other.notAfter], [tbs.notBefore, tbs.notAfter])
      assert.deepEqual(Buffer.from(other.publicKey.rawData), tbs.spki.der)
      assert.deepEqual(Buffer.from(other.signature), signature)
      const extensions = Array.from(other.extensions, ({ type, critical, value }) => ({
        oid: type,
        critical,
        value: Buffer.from(value),
      }))
      assert.deepEqual(extensions, tbs.extensions)
      const names = other.getExtension(x509.SubjectAlternativeNameExtension)?.names.items.map(({ value }) => value)
      assert.deepEqual(
        names,
        tbs.subjectAltNames.map(({ value }) => value),
      )
      const expected = 'DNS:a.example, DNS:*.b.example, IP Address:192.0.2.1, IP Address:2001:DB8:0:0:0:0:0:1'
      assert.equal(node.subjectAltName, expected)
      assert.equal(node.ca, false)
      assert.deepEqual(node.keyUsage, ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'])
    })

  test('reads CA certificates of @peculiar/x509', async () => {
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
    const keys = await globalThis.crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
    const root = await x509.X509CertificateGenerator.createSelfSigned({
      name: 'CN=Root, C=DE',
      keys,
      signingAlgorithm: algorithm,
      notBefore: NOT_BEFORE,
      notAfter: new Date('2060-01-01T00:00:00Z'),
      extensions: [
        new x509.BasicConstraintsExtension(true, 1, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      ],
    })
    const { tbs } = parseCertificate(Buffer.from(root.rawData))
    assert.equal(tbs.isCa, true)
    assert.equal(tbs.pathLength, 1)
    assert.deepEqual(tbs.keyUsages, ['key_cert_sign', 'crl_sign'])
    assert.equal(tbs.notAfterForm, 'GeneralizedTime')
    assert.deepEqual(tbs.issuerDer, tbs.subjectDer)
  })
})
