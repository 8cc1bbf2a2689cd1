import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseConfig } from '../../../signer/config.ts'
import { checkTbsCertificate, compilePolicy, type IssuerFacts } from '../../../signer/policy.ts'
import { parseSpki } from '../../../src/shared/pki/algorithms.ts'
import {
  writeAuthorityKeyIdentifier,
  writeCrlDistributionPoints,
  writeExtendedKeyUsage,
  writeKeyUsage,
  writeSubjectKeyIdentifier,
} from '../../../src/shared/pki/extensions.ts'
import { EXTENSION } from '../../../src/shared/pki/oids.ts'
import { address, bits, der, dns, hex, NULL, oid, sequence, text } from '../../corpus/der.ts'
import { RSA_ENCRYPTION } from '../../corpus/requests.ts'
import {
  type AuthorityKind,
  constraintsOn,
  DAY_MS,
  leafTbs,
  makeAuthority,
  makeKeyPair,
  spkiOf,
} from '../../signer/authority.ts'
import { type RawTbsChanges, rawExtension, rawName, rawTbs, type WritePart } from '../../signer/raw-tbs.ts'
import { rawTbsList } from '../../signer/raw-tbs-list.ts'
import { forAll, forAnyInput } from '../../support/property-runs.ts'
import { words } from '../../support/words.ts'

const authority = makeAuthority('P-256')
const other = makeAuthority('P-256')
const BASIC_CONSTRAINTS = '2.5.29.19'
const NAME_CONSTRAINTS = '2.5.29.30'
const SUBJECT_ALT_NAME = '2.5.29.17'

function policyOf(policyYaml = '{}', above: Partial<Pick<IssuerFacts, 'constraints' | 'purposes'>> = {}) {
  const text = `socket: s\nsecret_file: s\naudit: { file: a }\nissuers: [{ id: x, certificate: c, key: { file: k }, policy: ${policyYaml} }]`
  const config = parseConfig(text, 'test')
  const { algorithm: signatureAlgorithm } = authority
  return compilePolicy(config.issuers[0]!.policy, {
    ...authority,
    signatureAlgorithm,
    maySignCrls: true,
    constraints: [],
    purposes: [],
    ...above,
  })
}

const refusalOf = (tbs: Buffer, policyYaml?: string): string | undefined => {
  const verdict = checkTbsCertificate(tbs, policyOf(policyYaml), new Date(now))
  return 'refusal' in verdict ? verdict.refusal : undefined
}

test('the name constraints above an issuer bind what it signs, as the configured subtrees do', () => {
  const constraints = [constraintsOn({ dns: ['example.org'] }, { dns: ['secret.example.org'] })]
  const verdict = (dnsNames: string[]) =>
    checkTbsCertificate(leafTbs(authority, { dnsNames }), policyOf('{}', { constraints }), new Date(now))
  assert.ok('spki' in verdict(['www.example.org']))
  for (const name of ['x.lab.test', 'b.secret.example.org']) {
    const refused = verdict(['www.example.org', name])
    assert.ok('refusal' in refused && refused.isOfName && refused.refusal.startsWith(name), name)
  }
})

test('a key purpose that a certificate above the leaf lacks is not signed', () => {
  const extendedKeyUsages = ['server_auth', 'client_auth'] as const
  const above = { purposes: [['server_auth', 'client_auth'], ['server_auth']] }
  const tbs = leafTbs(authority, { extendedKeyUsages })
  const verdict = checkTbsCertificate(tbs, policyOf('{}', above), new Date(now))
  assert.ok('refusal' in verdict && /extended key usage client_auth is not allowed/.test(verdict.refusal))
})

const withExtension = (name: string, write: WritePart | undefined): RawTbsChanges => ({ extensions: { [name]: write } })

const san = (...names: readonly Buffer[]) => raw('subjectAltName', SUBJECT_ALT_NAME, true, sequence(...names))

const rsaSpki = (modulusLength: number) => spkiOf(generateKeyPairSync('rsa', { modulusLength }).publicKey)
const aKey = (kind: AuthorityKind) => spkiOf(makeKeyPair(kind).publicKey)
const raw = (name: string, ...extension: Parameters<typeof rawExtension>) =>
  withExtension(name, rawExtension(...extension))
const without = (name: string) => withExtension(name, undefined)
const crl = (...urls: string[]) => withExtension('crl', (writer) => writeCrlDistributionPoints(writer, urls))
const aki = (key: Buffer) =>
  withExtension('authorityKeyIdentifier', (writer) => writeAuthorityKeyIdentifier(writer, key))
const ski = (key: Buffer) => withExtension('subjectKeyIdentifier', (writer) => writeSubjectKeyIdentifier(writer, key))
const RSA_2048 = rsaSpki(2048)
const keyUsage = (...usages: Parameters<typeof writeKeyUsage>[1]) =>
  withExtension('keyUsage', (w) => writeKeyUsage(w, usages))
const purposes = (...names: Parameters<typeof writeExtendedKeyUsage>[1]) =>
  withExtension('extendedKeyUsage', (writer) => writeExtendedKeyUsage(writer, names))
const basicConstraints = (content: string, critical = true) =>
  raw('basicConstraints', BASIC_CONSTRAINTS, critical, hex(content))
const now = Math.floor(Date.now() / 1000) * 1000

const at = (days: number, seconds = 0) => new Date(now + days * DAY_MS + seconds * 1000)

const CRL_HERE = '{ crl_urls: ["http://crl.example.org/"] }'
const ORG_ONLY = '{ permitted: { dns: [example.org] } }'
const NET_ONLY = '{ permitted: { ip: [10.0.0.0/8] } }'
const NOT_DB = '{ excluded: { dns: [db.example.org] } }'

const fullName = (...names: readonly Buffer[]) => der(0xa0, der(0xa0, ...names))
const CRL_URI = text(0x86, 'http://crl.example.org/1')
const DIRECTORY_NAME = der(0xa4, rawName(['2.5.4.3', 'Somebody Else']))
const CA_ISSUERS = oid('2b06010505073002')
const SERVER_AUTH = sequence(oid('2b06010505070301'))

function integer(number: bigint): Buffer {
  const digits = number.toString(16)
  const even = digits.padStart(digits.length + (digits.length % 2), '0')
  return der(0x02, hex(/^[89a-f]/.test(even) ? `00${even}` : even))
}
const rawRsa = (modulus: bigint, exponent: bigint): Buffer =>
  sequence(sequence(RSA_ENCRYPTION, NULL), bits(sequence(integer(modulus), integer(exponent))))
const RSA_FACTS = parseSpki(RSA_2048)
const RSA_MODULUS = BigInt(`0x${RSA_FACTS.kind === 'rsa' ? RSA_FACTS.modulus.toString('hex') : ''}`)
const CURVE_KEYS = (['P-256', 'P-384', 'P-521'] as const).map(
  (curve) => [curve, spkiOf(makeKeyPair(curve).publicKey)] as const,
)
/** Another y: only two points share an x. */
function flipped(spki: Buffer): Buffer {
  const copy = Buffer.from(spki)
  copy[copy.length - 1]! ^= 1
  return copy
}
const ed25519 = (key: Buffer) => Buffer.concat([hex('302a300506032b6570032100'), key])

/** What a front that somebody has taken over might ask for. */
const REFUSED: readonly (readonly [what: string, changes: RawTbsChanges, sentence: RegExp, policyYaml?: string])[] = [
  ['a CA certificate', basicConstraints('30030101ff'), /CA certificates/],
  ['a CA certificate, constraint not critical', basicConstraints('30030101ff', false), /CA certificates/],
  ['a CA certificate with a path length', basicConstraints('30060101ff020100'), /CA certificates/],
  ['a path length without cA', basicConstraints('3003020100'), /CA certificates|TBSCertificate/],
  ['cA FALSE written out', basicConstraints('3003010100'), /not a TBSCertificate/],
  ['keyCertSign', keyUsage('key_cert_sign'), /keyCertSign/],
  ['keyCertSign beside digitalSignature', keyUsage('digital_signature', 'key_cert_sign'), /keyCertSign/],
  ['cRLSign', keyUsage('crl_sign'), /cRLSign/],
  ['another issuer name', { issuer: rawName(['2.5.4.3', 'Somebody Else']) }, /issuer name/],
  ['the issuer name in another string type', { issuer: printable(authority.nameDer) }, /issuer name/],
  ['an empty issuer name', { issuer: Buffer.of(0x30, 0x00) }, /issuer name/],
  ["another issuer's key identifier", aki(other.keyIdentifier), /authorityKeyIdentifier/],
  ['no key identifier of the issuer', without('authorityKeyIdentifier'), /authorityKeyIdentifier/],
  ['another hash than the issuer uses', { signatureAlgorithm: 'SHA384withECDSA' }, /signature algorithm/],
  ['an algorithm of another key type', { signatureAlgorithm: 'SHA256withRSA' }, /signature algorithm/],
  ['a negative serial number', { serialContent: Buffer.alloc(16, 0xff).fill(0x80, 0, 1) }, /negative/],
  ['a serial number of zero', { serialContent: Buffer.of(0) }, /serial number/],
  ['a short serial number', { serialContent: Buffer.alloc(7, 0x41) }, /fewer than 8/],
  ['a serial number of 21 octets', { serialContent: Buffer.alloc(21, 0x41) }, /more than 20/],
  [
    'a serial number shorter than the policy wants',
    { serialContent: Buffer.alloc(15, 0x41) },
    /fewer than 16/,
    '{ min_serial_octets: 16 }',
  ],
  ['a validity longer than allowed', { notBefore: at(0), notAfter: at(398) }, /longer than/],
  ['notAfter before notBefore', { notBefore: at(0), notAfter: new Date(now - 5000) }, /before notBefore/],
  [
    'a certificate for the time after the intrusion',
    { notBefore: at(8, 1), notAfter: at(20) },
    /notBefore is more than 8 days from now/,
  ],
  [
    'a certificate from before its key was distrusted',
    { notBefore: at(-2), notAfter: at(1) },
    /notBefore is more than 1 days from now/,
    '{ max_start_offset_days: 1 }',
  ],
  ['notBefore before the issuer', { notBefore: new Date(authority.notBefore.getTime() - 1000) }, /notBefore is before/],
  [
    'notAfter after the issuer',
    {
      notBefore: new Date(authority.notAfter.getTime() - DAY_MS),
      notAfter: new Date(authority.notAfter.getTime() + 1000),
    },
    /notAfter is after/,
  ],
  ['an RSA key that is too short', { spki: rsaSpki(1024) }, /at least 2048 bits, this one has 1024/],
  ['an RSA key shorter than the policy wants', { spki: RSA_2048 }, /this one has 2048/, '{ min_rsa_bits: 3072 }'],
  ['a key type outside the policy', { spki: RSA_2048 }, /key type RSA/, '{ key_types: [P-256, P-384] }'],
  ['a curve outside the policy', { spki: aKey('P-521') }, /key type P-521/, '{ key_types: [P-256] }'],
  ['Ed25519 where it is not allowed', { spki: aKey('Ed25519') }, /Ed25519/, '{ key_types: [P-256] }'],
  [
    'a curve nobody knows here',
    { spki: spkiOf(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey) },
    /key type 1\.3\.132/,
  ],
  ['RSA with an exponent of 0', { spki: rawRsa(RSA_MODULUS, 0n) }, /exponent must lie between/],
  ['RSA with an exponent of 3', { spki: rawRsa(RSA_MODULUS, 3n) }, /exponent must lie between/],
  ['RSA with an exponent of 2048 bits', { spki: rawRsa(RSA_MODULUS, RSA_MODULUS - 2n) }, /exponent must lie between/],
  ['RSA with an even modulus', { spki: rawRsa(RSA_MODULUS - 1n, 65537n) }, /modulus must be odd/],
  ...CURVE_KEYS.map(
    ([curve, spki]) => [`a point that is not on ${curve}`, { spki: flipped(spki) }, /is not a point of/] as const,
  ),
  ['an Ed25519 key of zeros', { spki: ed25519(Buffer.alloc(32)) }, /Ed25519 key is of small order/],
  ['a key usage outside the policy', keyUsage('content_commitment'), /content_commitment/],
  ['no key usage, which allows every one', without('keyUsage'), /key usage is missing/],
  ['code signing', purposes('server_auth', 'code_signing'), /code_signing/],
  ['OCSP signing', purposes('ocsp_signing'), /ocsp_signing/],
  ['anyExtendedKeyUsage', raw('extendedKeyUsage', '2.5.29.37', false, hex('30060604551d2500')), /2\.5\.29\.37\.0/],
  ['no extended key usage', without('extendedKeyUsage'), /extended key usage is missing/],
  ['an unknown critical extension', raw('x', '1.2.3.4', true, NULL), /critical extension 1\.2\.3\.4/],
  ['an unknown extension that is not critical', raw('x', '1.2.3.4', false, NULL), /extension 1\.2\.3\.4/],
  ['name constraints', raw('x', NAME_CONSTRAINTS, false, Buffer.of(0x30, 0)), /2\.5\.29\.30/],
  [
    'an extension twice',
    withExtension('x', (writer) => writeKeyUsage(writer, ['digital_signature'])),
    /not a TBSCertificate/,
  ],
  ['no subject alternative name', without('subjectAltName'), /alternative name is missing|lint/],
  ['an e-mail address', san(text(0x81, 'a@example.org')), /rfc822Name/],
  ['a URI', san(dns('www.example.org'), text(0x86, 'https://example.org/')), /uniformResourceIdentifier/],
  ['a directory name', san(der(0xa4, sequence())), /directoryName/],
  ['a host name with a space', san(dns('www.exa mple.org')), /not a host name/],
  ['a host name with a final dot', san(dns('www.example.org.')), /not a host name/],
  ['a wildcard inside a label', san(dns('w*.example.org')), /not a host name/],
  ['a NUL in a host name', san(dns('www.example.org\0.evil.test')), /not a TBSCertificate/],
  ['a name outside the permitted subtrees', san(dns('www.example.net')), /outside the permitted/, ORG_ONLY],
  ['a name that only ends like a permitted one', san(dns('badexample.org')), /outside the permitted/, ORG_ONLY],
  ['one bad name among good ones', san(dns('a.example.org'), dns('b.example.net')), /b\.example\.net/, ORG_ONLY],
  [
    'any name where none is permitted',
    san(dns('www.example.org')),
    /outside the permitted/,
    '{ permitted: { dns: [] } }',
  ],
  [
    'a CRL distribution point elsewhere',
    crl('http://crl.example.org/1', 'http://evil/1'),
    /evil\/1 is not allowed/,
    CRL_HERE,
  ],
  ...[
    'http://crl.example.org\\@evil.test/ca/1',
    ...words`
      http://crl.example.org.evil.test/1 http://crl.example.org@evil.test/1 http://crl.example.org:81/ca/1
      https://crl.example.org/ca/1 http://crl.example.org/ http://crl.example.org/cannes/1
      http://crl.example.org/ca/../1 http://crl.example.org/ca/%2e%2e/1 http://a@crl.example.org/ca/1
    `,
  ].map(
    (url) =>
      [
        `a CRL distribution point that only begins like an allowed one: ${url}`,
        crl(url),
        /is not allowed/,
        '{ crl_urls: ["http://crl.example.org/ca"] }',
      ] as const,
  ),
  ...Object.entries({
    'a second CRL distribution point': sequence(sequence(fullName(CRL_URI)), sequence(fullName(DIRECTORY_NAME))),
    'a CRL distribution point with a directoryName': sequence(sequence(fullName(CRL_URI, DIRECTORY_NAME))),
    'a CRL distribution point of another issuer': sequence(sequence(fullName(CRL_URI), der(0xa2, DIRECTORY_NAME))),
    'a CRL distribution point of another issuer and without a name': sequence(sequence(der(0xa2, DIRECTORY_NAME))),
    'a CRL distribution point with a name relative to the issuer': sequence(
      sequence(fullName(CRL_URI)),
      sequence(der(0xa0, der(0xa1, hex('3009060355040313026162')))),
    ),
    'reasons of a CRL distribution point': sequence(sequence(fullName(CRL_URI), der(0x81, hex('0640')))),
    'reasons of a CRL distribution point that are no BIT STRING': sequence(
      sequence(fullName(CRL_URI), der(0x81, Buffer.alloc(100, 0xff))),
    ),
  }).map(
    ([what, value]) =>
      [
        what,
        raw('crl', EXTENSION.crlDistributionPoints, false, value),
        /is not one point that is named by URLs alone/,
        CRL_HERE,
      ] as const,
  ),
  [
    'access to something else than URLs',
    raw('aia', EXTENSION.authorityInfoAccess, false, sequence(sequence(CA_ISSUERS, DIRECTORY_NAME))),
    /authorityInfoAccess names something else/,
  ],
  [
    'qualifiers of a policy',
    raw('policies', EXTENSION.certificatePolicies, false, sequence(sequence(CA_ISSUERS, sequence(NULL)))),
    /certificatePolicies has qualifiers/,
  ],
  [
    'an authority key identifier with more than that',
    raw(
      'authorityKeyIdentifier',
      EXTENSION.authorityKeyIdentifier,
      false,
      sequence(der(0x80, authority.keyIdentifier), der(0xa1, CRL_URI), der(0x82, Buffer.of(1))),
    ),
    /authorityKeyIdentifier holds more than/,
  ],
  [
    'a subject key identifier of 1,000 octets',
    ski(Buffer.alloc(1000, 1)),
    /subjectKeyIdentifier is not that of the subject key/,
  ],
  [
    "the issuer's subject key identifier",
    ski(authority.keyIdentifier),
    /subjectKeyIdentifier is not that of the subject key/,
  ],
  [
    'an answer to a tls-alpn-01 challenge (RFC 8737 §3)',
    raw('acme', EXTENSION.acmeIdentifier, false, der(0x04, Buffer.alloc(32))),
    /extension 1\.3\.6\.1\.5\.5\.7\.1\.31 is not allowed/,
  ],
  [
    'an extended key usage that is critical',
    raw('extendedKeyUsage', EXTENSION.extendedKeyUsage, true, SERVER_AUTH),
    /extendedKeyUsage is critical/,
  ],
  ['no basic constraints', without('basicConstraints'), /basicConstraints is missing/],
  ['an excluded name in capitals', san(dns('DB.Example.ORG')), /excluded/, NOT_DB],
  [
    'a name below an excluded one',
    san(dns('x.db.example.org')),
    /excluded/,
    '{ permitted: { dns: [example.org] }, excluded: { dns: [db.example.org] } }',
  ],
  ['a wildcard that covers an excluded name', san(dns('*.example.org')), /excluded/, NOT_DB],
  [
    'a wildcard above the permitted subtree',
    san(dns('*.example.org')),
    /outside the permitted/,
    '{ permitted: { dns: [www.example.org] } }',
  ],
  ['an address outside the permitted networks', san(address('c0000201')), /outside the permitted networks/, NET_ONLY],
  [
    'names that make an audit line longer than its reader looks back',
    san(...Array.from({ length: 900 }, (_, i) => dns(`a${i}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(30)}`))),
    /more than 131072 characters/,
  ],
  [
    'more names than any order has',
    san(...Array.from({ length: 20_000 }, (_, i) => dns(`a${i}.b`))),
    /GeneralNames has more than 1000 values/,
  ],
  [
    'an excluded address',
    san(address('0a010203')),
    /excluded network/,
    '{ permitted: { ip: [10.0.0.0/8] }, excluded: { ip: [10.1.0.0/16] } }',
  ],
  [
    'an excluded address, mapped into IPv6',
    san(address('00000000000000000000ffff0a010203')),
    /excluded network/,
    '{ excluded: { ip: [10.1.0.0/16] } }',
  ],
  [
    'an IPv6 address outside the permitted networks',
    san(address(`20010db9${'00'.repeat(12)}`)),
    /outside the permitted networks/,
    '{ permitted: { ip: ["2001:db8::/32"] } }',
  ],
  ['an organisation in the subject', { subject: rawName(['2.5.4.10', 'Bank']) }, /subject attribute O/],
  ['a common name that is no alternative name', { subject: rawName(['2.5.4.3', 'bank.example.net']) }, /common name/],
  ['an e-mail address in the subject', { subject: rawName(['1.2.840.113549.1.9.1', 'a@b']) }, /subject attribute/],
  ['a key usage that the key cannot serve', keyUsage('key_encipherment'), /lint: keyUsage/],
  ['a name twice', san(dns('www.example.org'), dns('WWW.example.org')), /lint: subjectAltName/],
  ['no subject key identifier', without('subjectKeyIdentifier'), /lint: subjectKeyIdentifier/],
  [
    'a critical alternative name beside a subject',
    { subject: rawName(['2.5.4.3', 'www.example.org']) },
    /lint: subjectAltName/,
  ],
  ['a version 2 certificate with extensions', { version: 2 }, /not a TBSCertificate|version/],
]

/** Other encodings of what is fine in DER, and what is no DER at all (X.690 §10, §11). */
const NOT_DER: readonly (readonly [what: string, tbs: Buffer])[] = [
  ['nothing', Buffer.alloc(0)],
  ['bytes behind the structure', Buffer.concat([rawTbs(authority), Buffer.of(0)])],
  ['another structure behind it', Buffer.concat([rawTbs(authority), rawTbs(authority)])],
  ['a structure that is cut off', rawTbs(authority).subarray(0, -1)],
  [
    'a length with a leading zero',
    reheaded(rawTbs(authority), (content) => [0x83, 0, content.length >> 8, content.length & 0xff]),
  ],
  ['an indefinite length', Buffer.concat([reheaded(rawTbs(authority), () => [0x80]), Buffer.of(0, 0)])],
  [
    'a serial number with a superfluous octet',
    rawTbs(authority, { serialContent: Buffer.alloc(16, 0x41).fill(0, 0, 1) }),
  ],
  ['a serial number without octets', rawTbs(authority, { serialContent: Buffer.alloc(0) })],
  ['a TRUE that is not FF', rawTbs(authority, basicConstraints('3003010101'))],
  ['a criticality of FALSE written out', replaced(rawTbs(authority), '0603551d0f0101ff', '0603551d0f010100')],
  [
    'an OID that is not minimal',
    rawTbs(
      authority,
      withExtension('x', (writer) => writer.raw(hex('300906032a800304020500'))),
    ),
  ],
  ['another tag than SEQUENCE', Buffer.concat([Buffer.of(0x31), rawTbs(authority).subarray(1)])],
  ['a TBSCertList', rawTbsList(authority)],
]

/** The same content under another length; a TBSCertificate of a test has a header of four octets. */
function reheaded(tbs: Buffer, lengthOf: (content: Buffer) => number[]): Buffer {
  const content = tbs.subarray(4)
  return Buffer.concat([Buffer.from([0x30, ...lengthOf(content)]), content])
}

/** Of the same length. */
function replaced(tbs: Buffer, hex: string, by: string): Buffer {
  const text = tbs.toString('hex')
  assert.ok(text.includes(hex))
  return Buffer.from(text.replace(hex, by), 'hex')
}

/** The same Name with its one string as PrintableString: equal to the eye and to RFC 5280 §7.1, but not in bytes. */
function printable(name: Buffer): Buffer {
  const copy = Buffer.from(name)
  copy[copy.indexOf(0x0c, 9)] = 0x13
  return copy
}

describe('the policy of an issuer', () => {
  test('accepts an ordinary leaf and names it', () => {
    const verdict = checkTbsCertificate(
      leafTbs(authority, { dnsNames: ['a.example.org'], ipAddresses: ['10.0.0.1'] }),
      policyOf(),
      new Date(now),
    )
    assert.ok('serialNumber' in verdict, JSON.stringify(verdict))
    assert.match(verdict.serialNumber, /^40[0-9a-f]{30}$/)
  })

  test('accepts what the raw writer of this test makes without changes', () =>
    assert.equal(refusalOf(rawTbs(authority)), undefined))

  for (const [what, changes, sentence, policyYaml] of REFUSED)
    test(`refuses ${what}`, () =>
      assert.match(refusalOf(rawTbs(authority, changes), policyYaml) ?? 'accepted', sentence))

  test('tells a name that the subtrees do not allow from what no front that is in order asks for', () => {
    const policy = policyOf('{ excluded: { dns: [vault.example.org] } }')
    const isOfName = (tbs: Buffer) => {
      const verdict = checkTbsCertificate(tbs, policy, new Date(now))
      return 'refusal' in verdict ? verdict.isOfName === true : undefined
    }
    assert.equal(isOfName(leafTbs(authority, { dnsNames: ['a.vault.example.org'] })), true)
    assert.equal(isOfName(rawTbs(authority, san(dns('www.exa mple.org')))), false)
    assert.equal(isOfName(rawTbs(authority, { ...san(dns('vault.example.org')), version: 2 })), false)
  })

  for (const [what, tbs] of NOT_DER)
    test(`refuses ${what}`, () => assert.match(refusalOf(tbs) ?? 'accepted', /^not a TBSCertificate: /))

  const ACCEPTED: readonly (readonly [what: string, tbs: Buffer, policyYaml?: string])[] = [
    [
      'a validity of exactly the maximum, both ends counted (RFC 5280 §4.1.2.5)',
      leafTbs(authority),
      '{ max_validity_days: 90 }',
    ],
    ['a start at the end of the life of an order', rawTbs(authority, { notBefore: at(7), notAfter: at(20) })],
    ['the permitted domain itself', leafTbs(authority, { dnsNames: ['example.org'] }), ORG_ONLY],
    ['a wildcard below the permitted domain', leafTbs(authority, { dnsNames: ['*.example.org'] }), ORG_ONLY],
    ['an address in a permitted network', leafTbs(authority, { dnsNames: [], ipAddresses: ['10.9.8.7'] }), NET_ONLY],
    ['a common name that repeats a name', leafTbs(authority, { commonName: 'www.example.org' })],
    [
      'an extension the configuration lists',
      rawTbs(authority, raw('x', '1.2.3.4', false, NULL)),
      '{ extra_extensions: [1.2.3.4] }',
    ],
    [
      'no key usage where the configuration says so',
      rawTbs(authority, without('keyUsage')),
      '{ key_usage_required: false }',
    ],
    ['an RSA key', leafTbs(authority, { spki: RSA_2048, keyUsages: ['digital_signature', 'key_encipherment'] })],
  ]
  for (const [what, tbs, policyYaml] of ACCEPTED)
    test(`accepts ${what}`, () => assert.equal(refusalOf(tbs, policyYaml), undefined))

  test('gives a verdict on random bytes and on every mutated TBSCertificate, and never throws', () => {
    const good = leafTbs(authority)
    const policy = policyOf()
    forAll(
      fc.uint8Array({ maxLength: 400 }),
      (bytes) => 'refusal' in checkTbsCertificate(Buffer.from(bytes), policy, new Date(now)),
    )
    forAnyInput(fc.nat(good.length - 1), fc.integer({ min: 0, max: 255 }), (at, octet) => {
      const mutated = Buffer.from(good)
      mutated[at] = octet
      checkTbsCertificate(mutated, policy, new Date(now))
    })
  })
})
