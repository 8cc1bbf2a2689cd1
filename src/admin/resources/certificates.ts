/** Certificates: by what they are listed, revoked and found, in which orders, and with which columns. */

import { type Filters, type FilterValues, pick, valuesOf } from './filter.ts'

/** Each certificate has one: `revoked` includes those that have ended since. */
const STATUSES = { active: 'Active', revoked: 'Revoked', expired: 'Expired' } as const

/** Types that the function key_type of the database finds, and groups of them; named as in the set-up. */
const KEY_TYPES = {
  RSA: 'RSA',
  'RSA-below-2048': 'RSA below 2048 bits',
  'RSA-below-3072': 'RSA below 3072 bits',
  'RSA-2048': 'RSA-2048',
  'RSA-3072': 'RSA-3072',
  'RSA-4096': 'RSA-4096',
  'P-256': 'P-256',
  'P-384': 'P-384',
  'P-521': 'P-521',
  Ed25519: 'Ed25519',
  other: 'Other',
} as const

export const CERTIFICATE_FILTERS = {
  account_id: { kind: 'uuid', label: 'Account id', says: 'Only those of the account with this id.' },
  serial: { kind: 'serial', label: 'Serial number', says: 'The serial number in hexadecimal.' },
  fingerprint: { kind: 'sha256', label: 'Fingerprint', says: 'SHA-256 of the certificate.' },
  spki_sha256: {
    kind: 'sha256',
    label: 'SHA-256 of the public key',
    says: 'SHA-256 of the SubjectPublicKeyInfo.',
  },
  key_type: {
    kind: KEY_TYPES,
    label: 'Type of key',
    says: '`RSA` is RSA of any size; `other` is none of these kinds, also RSASSA-PSS. Certificates of which only the serial number is known are left out.',
    field: true,
  },
  domain: {
    kind: 'name',
    label: 'Exact name',
    says: 'One of its names whole, such as *.example.com or a common name, in any spelling.',
  },
  domain_suffix: {
    kind: 'name',
    label: 'Name and all below',
    says: 'A name that one of its names is, or lies below.',
  },
  status: {
    kind: STATUSES,
    label: 'Status',
    says: '`revoked` includes those that have ended since; the others leave revoked ones out.',
    field: true,
  },
  renewed: {
    kind: 'flag',
    label: 'Renewal',
    says: 'Whether it has a successor: an order that replaces it has got a certificate, or another one of its account ends later, is not revoked and has all its names. Certificates of no account are left out.',
    words: { false: 'Not renewed yet', true: 'Renewed' },
    field: true,
  },
  expiring_after: {
    kind: 'time',
    label: 'Expires from',
    says: 'Only those that expire at this date or time, or later.',
    field: true,
  },
  expiring_before: {
    kind: 'time',
    label: 'Expires until',
    says: 'Only those that expire before this date or time.',
    field: true,
  },
  issued_after: { kind: 'time', label: 'Issued from', says: 'Only those issued at this date or time, or later.' },
  issued_before: {
    kind: 'time',
    label: 'Issued until',
    says: 'Only those issued before this date or time.',
    field: 'Jump to: issued until',
  },
  revoked_after: { kind: 'time', label: 'Revoked from', says: 'Only those revoked at this date or time, or later.' },
  issuer: { kind: 'sha256', label: 'Issuer', says: "SHA-256 of the issuer's certificate." },
  profile: { kind: 'line', label: 'Profile', says: 'The CA profile of its order.', field: true },
} as const satisfies Filters
export type CertificateQuery = FilterValues<typeof CERTIFICATE_FILTERS>

/** Filters of the one certificate that a serial number finds. */
export const SERIAL_FILTERS = {
  issuer: {
    ...CERTIFICATE_FILTERS.issuer,
    says: "SHA-256 of the issuer's certificate, where several issuers have given the serial number.",
  },
} as const satisfies Filters

/** Orders that an index has: by time of issuance, and by expiry. */
export const CERTIFICATE_SORTS = ['-issued_at', 'not_after', '-not_after'] as const
export type CertificateSort = (typeof CERTIFICATE_SORTS)[number]

/** Newest first; by expiry, the latest first, where nothing but expiry narrows the list. */
export function usualSort(filter: { [K in keyof CertificateQuery]?: unknown }): CertificateSort {
  const { expiring_after, expiring_before, status, account_id, domain } = filter
  const isByExpiry = (expiring_after ?? expiring_before) !== undefined || status === 'expired'
  return isByExpiry && (account_id ?? domain) === undefined ? '-not_after' : '-issued_at'
}

/** Filters of certificates whose renewal window is open. */
export const AT_RISK_FILTERS = {
  ...pick(CERTIFICATE_FILTERS, ['account_id', 'expiring_before']),
  muted: {
    kind: 'flag',
    label: 'Muted',
    says: 'The muted ones instead of the others.',
    words: { true: 'Only muted' },
    field: true,
  },
} as const satisfies Filters

/** Filters of a bulk revocation, in the order of its form. A time is strict there: nobody has asked for what was issued at it. */
export const REVOCATION_FILTERS = {
  ...pick(CERTIFICATE_FILTERS, ['account_id', 'spki_sha256', 'key_type']),
  eab_kid: {
    kind: 'line',
    label: 'Key identifier of the credential',
    says: 'Only those of the accounts that registered with this credential.',
  },
  ...pick(CERTIFICATE_FILTERS, ['domain', 'domain_suffix']),
  issued_after: { ...CERTIFICATE_FILTERS.issued_after, says: 'Only those issued after this date or time.' },
  issued_before: CERTIFICATE_FILTERS.issued_before,
  serial_numbers: { kind: 'serials', label: 'Serial numbers', says: 'Serial numbers in hexadecimal.' },
} as const satisfies Filters

/** An incident is about one of these, which `recognize` (incident-endpoints.ts) reads from what a person types. */
export const INCIDENT_FILTERS = pick(REVOCATION_FILTERS, [
  'spki_sha256',
  'key_type',
  'account_id',
  'eab_kid',
  'domain',
  'domain_suffix',
])

/** The filter of certificates that have a name. */
export const withName = (name: string) => ({ domain: name })
/** The filter of certificates that have a name, or one below it. */
export const belowName = (name: string) => ({ domain_suffix: name })

/** The filter of certificates whose key has a type, by its name. A host may be called `other`, or `rsa`. */
export const withKeyType = (name: string) => {
  const type = valuesOf(KEY_TYPES).find(
    (one) => one === name || (one.includes('-') && one.toLowerCase() === name.toLowerCase()),
  )
  return type === undefined || type === 'other' ? undefined : { key_type: type }
}

/** The filter that finds what a person has typed: a fingerprint, an account, a serial number, or a name and all below it. */
export function filterOfText(text: string): Record<string, string> {
  const typed = text.trim()
  const digits = typed.replaceAll(/[:\s]/g, '')
  if (/^[0-9a-f]{64}$/i.test(digits)) return { fingerprint: digits }
  if (/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(typed)) return { account_id: typed }
  if (/^[0-9a-f]{14,40}$/i.test(digits)) return { serial: digits }
  return typed === '' ? {} : belowName(typed.replace(/^\*?\./, ''))
}

/** Members that a list shows: the columns of a page, the command line's table, and the file that a page saves. */
export const CERTIFICATE_MEMBERS = {
  page: [
    { head: 'Names', member: 'san_values' },
    { head: 'Status', member: 'revoked_at' },
    { head: 'Expires', member: 'not_after', kind: 'time', sort: 'not_after' },
    { head: 'Issued', member: 'created_at', kind: 'instant', sort: 'issued_at' },
    { head: 'Account', member: 'account_name' },
    { head: 'Key', member: 'key_type', kind: 'fixed' },
    { head: 'Serial number', member: 'serial_number' },
  ],
  table: ['serial_number', 'san_values', 'account_name', 'key_type', 'not_after', 'revoked_at'],
  file: [
    'serial_number',
    'san_values',
    'not_before',
    'not_after',
    'revoked_at',
    'revocation_reason',
    'account_id',
    'account_name',
    'order_id',
    'key_type',
    'fingerprint',
    'issuer_fingerprint',
  ],
} as const
