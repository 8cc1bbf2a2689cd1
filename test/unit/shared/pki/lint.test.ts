import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseSpki } from '../../../../src/shared/pki/algorithms.ts'
import { parseTbsCertificate, type TbsCertificate } from '../../../../src/shared/pki/certificate.ts'
import { keyUsagesFor } from '../../../../src/shared/pki/extensions.ts'
import { lintTbsCertificate } from '../../../../src/shared/pki/lint.ts'
import { encodeCommonName, type GeneralName, parseName } from '../../../../src/shared/pki/name.ts'
import { EXTENSION, KEY_USAGES } from '../../../../src/shared/pki/oids.ts'
import { buildTbsCertificate, type TbsCertificateInput } from '../../../../src/shared/pki/tbs-certificate.ts'
import { forAll } from '../../../support/property-runs.ts'
import { ALL_KEYS, aTbsInput, ED25519_KEY, hex, RSA_KEY } from './support.ts'

const built = (overrides: Partial<TbsCertificateInput> = {}) =>
  parseTbsCertificate(buildTbsCertificate(aTbsInput(overrides)))
const dns = (...names: string[]): Partial<TbsCertificate> => ({
  dnsNames: names,
  subjectAltNames: names.map((value): GeneralName => ({ kind: 'dNSName', value })),
})

/** The good certificate with criticality of one extension set; undefined drops the extension. */
function withExtension(oid: string, critical: boolean | undefined): Partial<TbsCertificate> {
  const extensions = built({ commonName: 'a.example' }).extensions
  return {
    extensions: extensions.flatMap((extension) =>
      extension.oid !== oid ? [extension] : critical === undefined ? [] : [{ ...extension, critical }],
    ),
  }
}

const where = (name: keyof typeof EXTENSION, critical?: boolean) => withExtension(EXTENSION[name], critical)

describe('lint of leaf certificates', () => {
  for (const key of ALL_KEYS)
    test(`a built certificate for a ${key.label} key has no findings, with and without a commonName`, () => {
      for (const commonName of ['a.example', undefined])
        assert.deepEqual(lintTbsCertificate(built({ spki: key.spki, commonName, ipAddresses: ['192.0.2.1'] })), [])
    })

  test('usages narrowed to the key never raise a finding', () =>
    forAll(fc.subarray([...KEY_USAGES]), fc.constantFrom(...ALL_KEYS), (usages, key) => {
      const { kind } = parseSpki(key.spki)
      assert.ok(kind !== 'unsupported')
      const oneWay =
        !usages.includes('key_agreement') && (usages.includes('encipher_only') || usages.includes('decipher_only'))
      if (!oneWay)
        assert.deepEqual(lintTbsCertificate(built({ spki: key.spki, keyUsages: keyUsagesFor(kind, usages) })), [])
    }))

  const builtFindings: [string, Partial<TbsCertificateInput>, RegExp][] = [
    ['a serial number of 63 bits or fewer octets', { serialNumber: hex('7fffffffffffff') }, /shorter than 64 bits/],
    ['a validity that ends before it begins', { notAfter: new Date('2025-01-01') }, /notBefore is not before/],
    ['an empty issuer', { issuerNameDer: hex('3000') }, /issuer is empty/],
    ['a commonName that is no SAN', { commonName: 'b.example' }, /commonName "b\.example" is not among/],
    ['a name twice', { dnsNames: ['a.example', 'A.example'] }, /dNSName a\.example twice/],
    ['an address twice', { ipAddresses: ['::1', '0::1'] }, /iPAddress ::1 twice/],
    ['an underscore', { dnsNames: ['_a.example'] }, /not a host name/],
    ['a wildcard inside a name', { dnsNames: ['a.*.example'] }, /not a host name/],
    ['a partial wildcard', { dnsNames: ['a*.example'] }, /not a host name/],
    ['a trailing dot', { dnsNames: ['a.example.'] }, /not a host name/],
    ['an empty name', { dnsNames: [''] }, /not a host name/],
    ['a label of 64 characters', { dnsNames: [`${'a'.repeat(64)}.example`] }, /not a host name/],
    ['a label that ends in a hyphen', { dnsNames: ['a-.example'] }, /not a host name/],
    ['a name of 254 characters', { dnsNames: [`${'a.'.repeat(123)}examples`] }, /longer than 253/],
    ['an address as dNSName', { dnsNames: ['192.0.2.1'] }, /is an IP address/],
    [
      'key encipherment for an EC key',
      { keyUsages: ['key_encipherment'] },
      /key_encipherment does not fit a 256-bit EC/,
    ],
    ['key agreement for an RSA key', { spki: RSA_KEY.spki, keyUsages: ['key_agreement'] }, /does not fit an RSA/],
    [
      'key agreement for an Ed25519 key',
      { spki: ED25519_KEY.spki, keyUsages: ['key_agreement'] },
      /does not fit an Ed25519/,
    ],
    ['certificate signing by a leaf', { keyUsages: ['key_cert_sign'] }, /key_cert_sign does not fit/],
    ['encipher_only alone', { keyUsages: ['encipher_only'] }, /need key_agreement/],
    ['a CRL by e-mail', { crlDistributionPointUrls: ['mailto:crl@example.org'] }, /is no URL of a list/],
    ['an empty authority key identifier', { authorityKeyIdentifier: hex('') }, /authorityKeyIdentifier is missing/],
  ]
  for (const [what, overrides, finding] of builtFindings)
    test(`finds ${what}`, () => assert.match(lintTbsCertificate(built(overrides)).join('; '), finding))

  const parsedFindings: [string, Partial<TbsCertificate>, RegExp][] = [
    ['version 1', { version: 1 }, /version is 1/],
    ['a negative serial number', { serialNumber: hex('8000000000000000ff') }, /negative/],
    ['a serial number of zero', { serialNumber: hex('00') }, /zero/],
    ['a serial number of 21 octets', { serialNumber: Buffer.alloc(21, 1) }, /more than 20/],
    [
      'an unknown signature algorithm',
      { signatureAlgorithm: { oid: '1.2.3', algorithm: undefined, der: hex('') } },
      /1\.2\.3 is unknown/,
    ],
    ['the wrong form of notBefore', { notBeforeForm: 'GeneralizedTime' }, /notBefore must be a UTCTime/],
    ['the wrong form of notAfter', { notAfter: new Date('2050-01-01') }, /notAfter must be a GeneralizedTime/],
    ['a CA', { isCa: true }, /says CA/],
    ['a path length', { pathLength: 0 }, /path length/],
    ['basicConstraints that are not critical', where('basicConstraints', false), /basicConstraints is not critical/],
    ['a missing SAN', where('subjectAltName', undefined), /subjectAltName is missing/],
    ['a critical SAN beside a subject', where('subjectAltName', true), /is critical although/],
    ['a SAN that is not critical without a subject', { subject: [] }, /is not critical although/],
    [
      'two commonNames',
      { subject: [...parseName(encodeCommonName('a.example')), ...parseName(encodeCommonName('a.example'))] },
      /more than one commonName/,
    ],
    ['a missing subject key identifier', { subjectKeyIdentifier: undefined }, /subjectKeyIdentifier is missing/],
    ['a missing authority key identifier', { authorityKeyIdentifier: undefined }, /authorityKeyIdentifier is missing/],
    ['a critical subject key identifier', where('subjectKeyIdentifier', true), /subjectKeyIdentifier is critical/],
    [
      'a critical authority key identifier',
      where('authorityKeyIdentifier', true),
      /authorityKeyIdentifier is critical/,
    ],
    ['a keyUsage that is not critical', where('keyUsage', false), /keyUsage is not critical/],
    ['a key for any purpose', { extendedKeyUsages: ['2.5.29.37.0'] }, /any purpose/],
    ['a purpose twice', { extendedKeyUsages: ['server_auth', 'server_auth'] }, /purpose twice/],
    ['an unknown critical extension', { unknownCriticalExtensions: ['1.2.3'] }, /1\.2\.3 is critical and unknown/],
    [
      'an unsupported key',
      { spki: { kind: 'unsupported', oid: '1.2.3', der: hex(''), keyBits: hex('') } },
      /unsupported type/,
    ],
    ['a SAN with other names than the commonName', dns('b.example'), /not among/],
  ]
  for (const [what, overrides, finding] of parsedFindings)
    test(`finds ${what}`, () => {
      const findings = lintTbsCertificate({ ...built({ commonName: 'a.example' }), ...overrides })
      assert.match(findings.join('; '), finding)
    })
})
