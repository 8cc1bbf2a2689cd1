/**
 * Account labels in the record names of dns-account-01 (draft-ietf-acme-dns-account-label-03 §3.2).
 */

import { hash } from 'node:crypto'

/** Lower case, because names are compared in lower case. */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'

/** The first ten bytes of the digest of the account's URL, in base32. */
export function accountLabel(accountUrl: string): string {
  const bits = hash('sha256', accountUrl, 'hex').slice(0, 20)
  // Eighty bits are sixteen characters of five bits, without padding (RFC 4648 §6).
  const value = BigInt(`0x${bits}`)
  return Array.from({ length: 16 }, (_, index) => BASE32[Number((value >> BigInt(75 - 5 * index)) & 31n)]).join('')
}
