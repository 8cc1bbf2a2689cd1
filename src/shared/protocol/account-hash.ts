/**
 * Hashed account URIs (draft-ietf-acme-dns-persist-02 §4.1): they name an account in public DNS
 * without revealing it.
 *
 *  <prefix>sha-256/<base64url of SHA-256(length octet || domain name || thumbprint || account URL)>
 *
 * The domain name is that of the record, or `*` for one value on many domains. The thumbprint binds
 * the account's key: account URLs alone do not suffice for guessing.
 */

import { createHash } from 'node:crypto'
import { decodeBase64url } from '../lib/encoding.ts'

/** The only algorithm accepted: the draft makes it mandatory for both sides. */
const ALGORITHM = 'sha-256'
const DIGEST_BYTES = 32

/** Replaces the domain name in a URI that is valid in the records of every domain. */
export const ANY_DOMAIN = '*'

export interface AccountHashInput {
  /** A-labels, lower case, no final dot; or ANY_DOMAIN. */
  domainName: string
  /** RFC 7638 over SHA-256, base64url: 43 characters. */
  thumbprint: string
  accountUrl: string
}

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
