/** Names of accounts in public DNS records, made from account URLs. */

import { createHash, hash } from 'node:crypto'
import { decodeBase64url } from '../lib/encoding.ts'

/** The only algorithm accepted: the draft makes it mandatory for both sides. */
const ALGORITHM = 'sha-256'
const DIGEST_BYTES = 32

/** Replaces the domain name in a URI that is valid in the records of every domain. */
export const ANY_DOMAIN = '*'

interface AccountHashInput {
  /** A-labels, lower case, no final dot; or ANY_DOMAIN. */
  domainName: string
  /** RFC 7638 over SHA-256, base64url: 43 characters. */
  thumbprint: string
  accountUrl: string
}

/**
 * Hashed account URIs (draft-ietf-acme-dns-persist-02 §4.1): they name an account in public DNS
 * without revealing it.
 *
 *  <prefix>sha-256/<base64url of SHA-256(length octet || domain name || thumbprint || account URL)>
 *
 * The domain name is the record's, or `*` for one value on many domains. The thumbprint binds
 * the account's key: account URLs alone do not suffice for guessing.
 */
export function hashedAccountUri(prefix: string, { domainName, thumbprint, accountUrl }: AccountHashInput): string {
  const digest = createHash('sha256')
    // One octet is enough: a domain name has at most 253.
    .update(Uint8Array.of(domainName.length))
    .update(`${domainName}${thumbprint}${accountUrl}`, 'ascii')
    .digest('base64url')
  return `${prefix}${ALGORITHM}/${digest}`
}

/** Whether the text has the form above; the hash itself is not checked. */
export function isHashedAccountUri(prefix: string, text: string): boolean {
  const start = `${prefix}${ALGORITHM}/`
  return text.startsWith(start) && decodeBase64url(text.slice(start.length))?.length === DIGEST_BYTES
}

/** Lower case, because names are compared in lower case. */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'

/**
 * The label in the record name of dns-account-01 (draft-ietf-acme-dns-account-label-03 §3.2): the first ten bytes of the digest of the account's URL, in base32.
 */
export function accountLabel(accountUrl: string): string {
  const bits = hash('sha256', accountUrl, 'hex').slice(0, 20)
  // Eighty bits are sixteen characters of five bits, without padding (RFC 4648 §6).
  const value = BigInt(`0x${bits}`)
  return Array.from({ length: 16 }, (_, index) => BASE32[Number((value >> BigInt(75 - 5 * index)) & 31n)]).join('')
}
