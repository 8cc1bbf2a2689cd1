/** Object identifiers of names, extensions, key purposes and access methods, with their names. */

export const EXTENSION = {
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  crlDistributionPoints: '2.5.29.31',
  certificatePolicies: '2.5.29.32',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  authorityInfoAccess: '1.3.6.1.5.5.7.1.1',
  /** RFC 8737 §6.1. */
  acmeIdentifier: '1.3.6.1.5.5.7.1.31',
} as const

/** Extensions of CA certificates only; separate, because no leaf may have one of them. */
export const CA_EXTENSION = { nameConstraints: '2.5.29.30' } as const

/** Signed certificate timestamps inside a certificate (RFC 6962 §3.3). */
export const SCT_LIST = '1.3.6.1.4.1.11129.2.4.2'

/** Extensions of a CRL (RFC 5280 §5.2) and of its entries (§5.3). Separate, because certificates have none of them. */
export const CRL_EXTENSION = {
  authorityKeyIdentifier: EXTENSION.authorityKeyIdentifier,
  crlNumber: '2.5.29.20',
  reasonCode: '2.5.29.21',
  issuingDistributionPoint: '2.5.29.28',
} as const

/** Access methods of the authority information access extension (RFC 5280 §4.2.2.1). */
export const ACCESS_METHOD = { ocsp: '1.3.6.1.5.5.7.48.1', caIssuers: '1.3.6.1.5.5.7.48.2' } as const

/** Certificate policy of the Baseline Requirements (§7.1.6.1): control of the names was validated, nothing else. */
export const DOMAIN_VALIDATED = '2.23.140.1.2.1'

/** PKCS#10 attribute that carries requested extensions (RFC 2985 §5.4.2). */
export const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'
/** The extension request of old Windows; OpenSSL reads it where the usual one is missing. */
export const MICROSOFT_EXTENSION_REQUEST = '1.3.6.1.4.1.311.2.1.14'

export const ANY_EXTENDED_KEY_USAGE = '2.5.29.37.0'

export const COMMON_NAME = '2.5.4.3'
/** RFC 2985 §5.2.1: an rfc822Name inside a subject. */
export const EMAIL_ADDRESS = '1.2.840.113549.1.9.1'

/** Short names of attribute types (RFC 4514 §3); every other type is written as its OID. */
export const ATTRIBUTE_SHORT_NAMES: ReadonlyMap<string, string> = new Map([
  [COMMON_NAME, 'CN'],
  ['2.5.4.7', 'L'],
  ['2.5.4.8', 'ST'],
  ['2.5.4.10', 'O'],
  ['2.5.4.11', 'OU'],
  ['2.5.4.6', 'C'],
  ['2.5.4.9', 'STREET'],
  ['0.9.2342.19200300.100.1.25', 'DC'],
  ['0.9.2342.19200300.100.1.1', 'UID'],
])

/** Key usages in the order of their bits (RFC 5280 §4.2.1.3), spelled as in configuration and CSR profiles. */
export const KEY_USAGES = [
  'digital_signature',
  'content_commitment',
  'key_encipherment',
  'data_encipherment',
  'key_agreement',
  'key_cert_sign',
  'crl_sign',
  'encipher_only',
  'decipher_only',
] as const
export type KeyUsage = (typeof KEY_USAGES)[number]

/** Key purposes (RFC 5280 §4.2.1.12) by configuration name; `rfcName` is the spelling of CSR profiles. */
export const EXTENDED_KEY_USAGES = {
  server_auth: { oid: '1.3.6.1.5.5.7.3.1', rfcName: 'serverAuth' },
  client_auth: { oid: '1.3.6.1.5.5.7.3.2', rfcName: 'clientAuth' },
  code_signing: { oid: '1.3.6.1.5.5.7.3.3', rfcName: 'codeSigning' },
  email_protection: { oid: '1.3.6.1.5.5.7.3.4', rfcName: 'emailProtection' },
  time_stamping: { oid: '1.3.6.1.5.5.7.3.8', rfcName: 'timeStamping' },
  ocsp_signing: { oid: '1.3.6.1.5.5.7.3.9', rfcName: 'OCSPSigning' },
} as const satisfies Record<string, { oid: string; rfcName: string }>
export type ExtendedKeyUsage = keyof typeof EXTENDED_KEY_USAGES
