/**
 * Certification requests as clients, devices and hand-made programs write them: name, who writes it, which of the two readers
 * take it, its bytes, and what our refusal says. The order is for `a.example` unless the row says otherwise.
 *
 * Go is crypto/x509 of Go 1.19.8 (`ParseCertificateRequest` and `CheckSignature`), asked by hand. OpenSSL is asked by the test
 * (`openssl req -verify`). What both take is refused for a reason that stands beside it.
 */

import {
  address,
  BASIC_CONSTRAINTS,
  CN,
  der,
  dns,
  EXTENDED_KEY_USAGE,
  extension,
  FALSE,
  hex,
  NULL,
  octets,
  oid,
  STRING,
  sequence,
  set,
  TRUE,
  text,
} from './der.ts'
import {
  attribute,
  attributes,
  besideSan,
  bmp,
  cn,
  csr,
  ecKey,
  ed25519,
  explicitCurve,
  extensionRequest,
  indefinite,
  keyUsage,
  longForm,
  microsoftRequest,
  NOTHING,
  named,
  nameOf,
  names,
  organization,
  P256,
  pointAs,
  pssKey,
  pssSigned,
  RSA_ENCRYPTION,
  requestAttribute,
  rsa,
  rsaKey,
  rsaSigned,
  SHA256_ECDSA,
  SHA256_RSA,
  san,
  sanOf,
  subject,
  USUAL,
  universal,
  value,
  windowsAttributes,
} from './requests.ts'

export type Readers = 'both' | 'Go' | 'OpenSSL' | 'neither'
export type CsrRow = readonly [name: string, from: string, readers: Readers, bytes: Buffer, refusal?: string]

const HAND = 'a hand-made client'
const CHALLENGE_PASSWORD = oid('2a864886f70d010907')
const VENDOR = oid('2a0304')
const SERVER_AUTH = oid('2b06010505070301')

const ALGORITHMS: readonly CsrRow[] = [
  ['P-256', 'certbot, lego', 'both', csr()],
  ['RSA', 'openssl req', 'both', rsa()],
  // RFC 4055 §5 and RFC 5758 §3.2: verifiers take absent parameters and NULL.
  ['RSA signature without parameters', 'p1_acme, csrbuilder', 'both', rsa({ algorithm: sequence(SHA256_RSA) })],
  ['ECDSA signature with NULL', 'Mbed TLS before 3.5', 'both', csr({ algorithm: sequence(SHA256_ECDSA, NULL) })],
  ['ECDSA signature with its curve', HAND, 'both', csr({ algorithm: sequence(SHA256_ECDSA, P256) })],
  ['RSA signature with other parameters', HAND, 'both', rsa({ algorithm: sequence(SHA256_RSA, sequence()) })],
  // RFC 8410 §3: the parameters must be absent.
  ['Ed25519 signature with NULL', HAND, 'OpenSSL', ed25519(NOTHING, NULL), 'Ed25519 with parameters is not accepted'],
  ['SHA-1 with RSA', 'old devices', 'both', rsaSigned('2a864886f70d010105', 'sha1'), 'SHA1withRSA is not accepted'],
  ['SHA-1 with RSA by OIW', 'makecert', 'both', rsaSigned('2b0e03021d', 'sha1'), 'SHA1withRSA is not accepted'],
  ['MD5 with RSA', 'old devices', 'OpenSSL', rsaSigned('2a864886f70d010104', 'md5'), 'MD5withRSA is not accepted'],
  ['SHA-224 with RSA', HAND, 'OpenSSL', rsaSigned('2a864886f70d01010e', 'sha224'), 'SHA224withRSA is not accepted'],
  ['RSASSA-PSS', 'Bouncy Castle', 'both', pssSigned(), 'RSASSA-PSS is not accepted'],
  [
    'rsaEncryption for the signature',
    HAND,
    'neither',
    rsa({ algorithm: sequence(RSA_ENCRYPTION, NULL) }),
    '1.1.1 is not',
  ],
  ['wrong signature', HAND, 'neither', csr({ wrap: () => hex('0309003006020101020101') }), 'does not verify'],
  [
    'signature of r and s alone',
    'WebCrypto',
    'neither',
    csr({ wrap: () => der(0x03, Buffer.alloc(65)) }),
    'not verify',
  ],
]

/** A certificate copies the key, so it is exact. */
const KEYS: readonly CsrRow[] = [
  ['RSA key without parameters', 'csrbuilder', 'OpenSSL', rsaKey(NOTHING), 'must have NULL parameters'],
  ['RSA modulus without sign octet', 'devices', 'OpenSSL', rsaKey(NULL, ''), 'INTEGER must not be negative'],
  ['RSA modulus with two zeros', 'devices', 'OpenSSL', rsaKey(NULL, '0000'), 'INTEGER is not minimal'],
  ['RSASSA-PSS key', 'openssl genpkey', 'OpenSSL', pssKey(), 'RSASSA-PSS is not accepted'],
  ['compressed point', 'openssl -conv_form', 'OpenSSL', ecKey(P256, pointAs(2, 33)), 'uncompressed point'],
  ['hybrid point', 'openssl -conv_form', 'OpenSSL', ecKey(P256, pointAs(6, 65)), 'uncompressed point'],
  ['explicit curve', 'openssl -param_enc', 'OpenSSL', explicitCurve(), 'must name its curve'],
  ['implicit curve', 'devices', 'neither', ecKey(NULL), 'must name its curve'],
  ['EC key without parameters', 'devices', 'neither', ecKey(NOTHING), 'must name its curve'],
  ['Ed25519 key with NULL', HAND, 'neither', ed25519(NULL, NOTHING), 'unexpected content'],
]

const FRAMES: readonly CsrRow[] = [
  ['version 1', "certbot's tests", 'both', csr({ version: hex('020101') })],
  ['version 2', 'acme-client for Ruby', 'both', csr({ version: hex('020102') })],
  ['version 3', HAND, 'both', csr({ version: hex('020103') })],
  ['version 255', HAND, 'both', csr({ version: hex('020200ff') })],
  ['version 2^63 - 1', HAND, 'both', csr({ version: hex('02087fffffffffffffff') })],
  ['version 2^63', HAND, 'OpenSSL', csr({ version: hex('0209008000000000000000') }), 'version has more than 64 bits'],
  ['version -1', HAND, 'both', csr({ version: hex('0201ff') })],
  ['version 0 in two octets', HAND, 'neither', csr({ version: hex('02020000') }), 'INTEGER is not minimal'],
  ['no attributes', 'openssl req', 'both', named()],
  ['no field for attributes', 'devices', 'OpenSSL', csr({ subject: sequence(set(cn('a.example'))), attributes: null })],
  ['attributes in a SET in [0]', HAND, 'Go', attributes(set(USUAL)), 'expected tag 30, found 31'],
  ['something behind the attributes', HAND, 'Go', csr({ more: NULL }), 'unexpected content'],
  ['a line feed behind', 'shell scripts', 'OpenSSL', Buffer.concat([csr(), Buffer.from('\n')]), 'unexpected content'],
  ['a long length', 'embedded encoders', 'OpenSSL', longForm(csr()), 'length is not minimal'],
  ['indefinite length', 'BER encoders', 'OpenSSL', indefinite(csr()), 'indefinite length'],
  ['unused bits', HAND, 'neither', csr({ wrap: (s) => der(3, Buffer.of(1), s, Buffer.of(0)) }), 'whole octets'],
  ['signature as OCTET STRING', HAND, 'neither', csr({ wrap: octets }), 'expected tag 03'],
]

const SUBJECTS: readonly CsrRow[] = [
  ['CN and SAN', 'cert-manager', 'both', subject(cn('a.example'))],
  ['only a CN', 'old devices', 'both', named()],
  ['CN in capitals', 'Windows', 'both', subject(cn('A.Example'))],
  ['CN with a final dot', 'devices', 'both', subject(cn('a.example.'))],
  ['CN between blanks', 'configurations by hand', 'both', subject(cn(' a.example '))],
  ['empty CN', 'openssl req', 'both', subject(cn(''))],
  ['empty CN as PrintableString', 'devices', 'both', subject(cn('', STRING.printable))],
  ['blank CN', 'devices', 'both', subject(cn(' '))],
  ['CN twice', 'openssl configurations', 'both', subject(cn('a.example'), cn('a.example'))],
  ['CN twice in an RDN', 'openssl -multivalue-rdn', 'both', nameOf(set(cn('a.example'), cn('a.example')))],
  // RFC 8555 §7.4: the names are those of the order.
  ['CN of another name', 'templates', 'both', subject(cn('b.example')), 'the order has not its common name b.example'],
  ['CN that is a title', 'devices', 'both', subject(cn('My Router')), 'the order has not its common name my router'],
  ['CN as PrintableString', 'Java', 'both', subject(cn('a.example', STRING.printable))],
  ['CN as TeletexString', 'old openssl', 'both', subject(cn('a.example', STRING.teletex))],
  ['CN as IA5String', 'devices', 'both', subject(cn('a.example', STRING.ia5))],
  ['CN as VisibleString', 'devices', 'Go', subject(cn('a.example', STRING.visible))],
  ['CN as BMPString', 'Windows certreq', 'both', subject(value(CN, bmp('a.example')))],
  ['CN as UniversalString', 'devices', 'both', subject(value(CN, universal('a.example')))],
  ['CN as constructed UTF8String', 'BER encoders', 'both', subject(value(CN, der(0x2c, text(0x0c, 'a.example'))))],
  ['CN as INTEGER', HAND, 'Go', subject(value(CN, hex('020101')))],
  ['e-mail address', 'openssl req', 'both', subject(value(oid('2a864886f70d010901'), text(STRING.ia5, 'a@b.example')))],
  ['* as PrintableString', 'old openssl', 'both', subject(organization(STRING.printable, '*'))],
  ['@ as PrintableString', 'devices', 'OpenSSL', subject(organization(STRING.printable, 'a@b'))],
  ['Latin-1 as TeletexString', 'old openssl', 'both', subject(organization(STRING.teletex, 'M\xfcller'))],
  ['Latin-1 as UTF8String', 'openssl', 'neither', subject(organization(STRING.utf8, 'M\xfcller')), 'outside its type'],
  ['Latin-1 as PrintableString', 'devices', 'OpenSSL', subject(organization(0x13, 'M\xfcller')), 'outside its type'],
  ['letters as NumericString', 'devices', 'OpenSSL', subject(organization(STRING.numeric, 'abc')), 'outside its type'],
  ['tab as VisibleString', 'devices', 'Go', subject(organization(STRING.visible, 'a\tb')), 'outside its type'],
  ['NUL as UTF8String', 'C programs', 'both', subject(organization(STRING.utf8, 'a\0'))],
  ['half a character as BMPString', 'devices', 'neither', subject(value(CN, hex('1e03006100'))), 'outside its type'],
  ['surrogates as BMPString', 'Windows', 'Go', subject(value(CN, bmp('a😀'))), 'outside its type'],
  ['O of 300 characters', 'templates', 'both', subject(organization(STRING.utf8, 'x'.repeat(300)))],
  ['RDN out of order', 'devices', 'both', nameOf(set(organization(STRING.utf8, 'An organization'), cn('a.example')))],
  ['empty RDN', HAND, 'both', nameOf(set())],
  // A bound: each RDN is a list of a stranger.
  ['twelve values in an RDN', HAND, 'both', nameOf(set(...Array(12).fill(cn('a.example')))), 'more than 10 values'],
  ['attribute without value', HAND, 'neither', nameOf(set(sequence(CN))), 'a value is missing'],
  [
    'attribute of two values',
    HAND,
    'Go',
    nameOf(set(sequence(CN, text(0x0c, 'a.example'), NULL))),
    'unexpected content',
  ],
]

const ATTRIBUTES: readonly CsrRow[] = [
  ['challengePassword', 'openssl req', 'both', attributes(attribute(CHALLENGE_PASSWORD, text(0x0c, 'secret')), USUAL)],
  ['empty challengePassword', 'openssl req', 'both', attributes(attribute(CHALLENGE_PASSWORD, text(0x0c, '')), USUAL)],
  ['attributes out of order', 'many', 'both', attributes(USUAL, attribute(CHALLENGE_PASSWORD, text(0x0c, 'secret')))],
  ['attribute without value', 'devices', 'both', attributes(attribute(CHALLENGE_PASSWORD), USUAL)],
  ['attribute of two values', 'vendors', 'both', attributes(attribute(VENDOR, NULL, NULL), USUAL)],
  ['attribute with BOOLEAN 01', 'devices', 'both', attributes(attribute(VENDOR, hex('010101')), USUAL)],
  ['attribute with a large tag', 'vendors', 'both', attributes(attribute(VENDOR, hex('9f210100')), USUAL)],
  ['attribute that is EXTERNAL', 'vendors', 'both', attributes(attribute(VENDOR, der(0x28, VENDOR)), USUAL)],
  ['Windows attributes', 'certreq, win-acme', 'both', attributes(...windowsAttributes())],
  ['renewal', 'certreq', 'both', attributes(attribute(oid('2b0601040182370d01'), sequence()), USUAL)],
  ["extensions under Microsoft's OID", 'old certreq', 'both', attributes(microsoftRequest(san(dns('a.example'))))],
  ['extensions under both OIDs', 'certreq', 'both', attributes(USUAL, microsoftRequest(san(dns('a.example'))))],
  ['two extension requests', 'certificate tools', 'both', attributes(extensionRequest(keyUsage('03020780')), USUAL)],
  ['the same extension request twice', 'openssl', 'OpenSSL', attributes(USUAL, USUAL), 'an extension twice'],
  [
    'extension request of two values',
    HAND,
    'both',
    attributes(requestAttribute(sequence(san(dns('a.example'))), sequence(keyUsage('03020780')))),
  ],
  ['extension request without value', HAND, 'both', named(requestAttribute())],
  ['no extension in the request', 'Java', 'both', named(extensionRequest())],
  [
    'extension request without SET',
    HAND,
    'Go',
    attributes(sequence(oid('2a864886f70d01090e'), sequence(san(dns('a.example'))))),
    'expected tag 31',
  ],
]

const EXTENSIONS: readonly CsrRow[] = [
  ['critical FALSE written', 'embedded encoders', 'both', sanOf(sequence(dns('a.example')), FALSE)],
  ['critical as 01', 'BER encoders', 'OpenSSL', sanOf(sequence(dns('a.example')), hex('010101')), 'must be 00 or FF'],
  ['unknown extension', 'vendors', 'both', besideSan(extension(VENDOR, NULL))],
  ['unknown critical extension', 'vendors', 'both', besideSan(extension(VENDOR, NULL, TRUE))],
  ['extension that is no DER', 'vendors', 'both', besideSan(extension(VENDOR, Buffer.from('text')))],
  ['must-staple', 'certbot', 'both', besideSan(extension(oid('2b06010505070118'), hex('3003020105')))],
  ['CA:FALSE', 'openssl', 'both', besideSan(extension(BASIC_CONSTRAINTS, hex('3000')))],
  ['CA:FALSE written', 'embedded encoders', 'both', besideSan(extension(BASIC_CONSTRAINTS, hex('3003010100')))],
  ['CA:TRUE', 'templates', 'both', besideSan(extension(BASIC_CONSTRAINTS, hex('30030101ff')))],
  ['key usage with zeros at the end', 'embedded encoders', 'both', besideSan(keyUsage('030200a0'))],
  ['key usage of no bits', 'templates', 'both', besideSan(keyUsage('030100'))],
  ['key usage of ten bits', HAND, 'both', besideSan(keyUsage('0303068040'))],
  ['key usage with padding', 'embedded encoders', 'both', besideSan(keyUsage('030204af'))],
  ['key usage as OCTET STRING', HAND, 'both', besideSan(keyUsage('040180'))],
  ['key usage with a byte behind', HAND, 'both', besideSan(keyUsage('0302078000'))],
  ['key usage twice', 'openssl', 'OpenSSL', besideSan(keyUsage('03020780'), keyUsage('03020780')), 'stands twice'],
  ['no purpose', 'templates', 'both', besideSan(extension(EXTENDED_KEY_USAGE, sequence()))],
  ['any purpose', 'templates', 'both', besideSan(extension(EXTENDED_KEY_USAGE, sequence(oid('551d2500'))))],
  [
    'a purpose twice',
    'templates',
    'both',
    besideSan(extension(EXTENDED_KEY_USAGE, sequence(SERVER_AUTH, SERVER_AUTH))),
  ],
]

const UPN = der(0xa0, oid('2b060104018237140203'), der(0xa0, text(STRING.utf8, 'a@a.example')))
const NAMES: readonly CsrRow[] = [
  ['a name twice', 'cert-manager', 'both', names(dns('a.example'), dns('a.example'))],
  ['a name in two cases', 'Windows', 'both', names(dns('a.example'), dns('A.EXAMPLE'))],
  ['a final dot', 'devices', 'both', names(dns('a.example.'))],
  ['a blank', 'configurations by hand', 'both', names(dns('a.example '))],
  ['an empty name', 'openssl', 'both', names(dns('a.example'), dns(''))],
  ['only an empty name', 'certificate tools', 'both', named(extensionRequest(san(dns(''))))],
  ['an empty SAN', 'openssl', 'both', named(extensionRequest(san()))],
  ['SAN twice', 'openssl', 'OpenSSL', besideSan(san(dns('a.example'))), '2.5.29.17 stands twice'],
  ['SAN without SEQUENCE', HAND, 'OpenSSL', sanOf(dns('a.example')), 'expected tag 30'],
  ['SAN with a byte behind', HAND, 'both', sanOf(Buffer.concat([sequence(dns('a.example')), Buffer.of(0)]))],
  ['a U-label', HAND, 'OpenSSL', names(text(0x82, '\xc3\xa4.example')), 'not visible ASCII'],
  // NUL and its kin have fooled verifiers before.
  ['a NUL', 'attackers', 'both', names(dns('a.example\0.b.example')), 'not visible ASCII'],
  // RFC 8555 §7.4: exactly the names of the order.
  ['a name more', 'templates', 'both', names(dns('a.example'), dns('b.example')), 'the order has not b.example'],
  ['localhost', 'devices', 'both', names(dns('a.example'), dns('localhost')), 'the order has not localhost'],
  ['an address as dNSName', HAND, 'both', names(dns('a.example'), dns('192.0.2.1')), 'the order has not 192.0.2.1'],
  ['an e-mail address', 'openssl', 'both', names(dns('a.example'), text(0x81, 'a@a.example')), 'rfc822Name'],
  ['a URI', 'SPIFFE', 'both', names(dns('a.example'), text(0x86, 'https://a.example/')), 'uniformResourceIdentifier'],
  ['a user principal name', 'Windows', 'both', names(dns('a.example'), UPN), 'otherName'],
  ['a directory name', 'devices', 'both', names(dns('a.example'), der(0xa4, sequence(set(cn('a'))))), 'directoryName'],
  ['a registered OID', 'devices', 'both', names(dns('a.example'), text(0x88, '*')), 'registeredID'],
  ['an address of 5 octets', HAND, 'OpenSSL', names(dns('a.example'), address('c000020100')), '4 or 16 octets'],
  ['an address with mask', HAND, 'OpenSSL', names(dns('a.example'), address('c0000201ffffffff')), '4 or 16 octets'],
]

export const CSRS = [...ALGORITHMS, ...KEYS, ...FRAMES, ...SUBJECTS, ...ATTRIBUTES, ...EXTENSIONS, ...NAMES]

/** For the order of 192.0.2.1. */
export const ADDRESS_CSRS: readonly CsrRow[] = [
  ['an address', 'lego', 'both', names(address('c0000201'))],
  [
    'an address and an empty CN',
    'openssl req',
    'both',
    csr({ subject: sequence(set(cn(''))), attributes: [extensionRequest(san(address('c0000201')))] }),
  ],
  ['an address as dNSName, too', 'old browsers', 'both', names(address('c0000201'), dns('192.0.2.1'))],
  ['only as dNSName', 'configurations by hand', 'both', names(dns('192.0.2.1'))],
  ['in 16 octets', 'Go programs', 'both', names(address('00000000000000000000ffffc0000201'))],
  ['twice', 'openssl configurations', 'both', names(address('c0000201'), address('c0000201'))],
  ['another address', 'templates', 'both', names(address('c0000202')), 'the order has not 192.0.2.2'],
]
