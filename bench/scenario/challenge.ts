/**
 * Meeting a challenge: what is published where before it is triggered.
 *
 * http-01 needs nothing, because its responder knows all accounts. A type that is not known here is one that the server
 * validates without asking us.
 */

import { createHash } from 'node:crypto'
import type { Account } from '../client/account.ts'
import { Failure } from '../client/failure.ts'
import type { Challenge } from '../client/order.ts'

/** A responder's data: a TXT record, or for tls-alpn-01 the digest of the key authorization. */
export interface Proof {
  name: string
  text: string
}

const PROOFS: Readonly<Record<string, (challenge: Challenge, account: Account, name: string) => Proof>> = {
  // RFC 8555 §8.4.
  'dns-01': (challenge, account, name) => ({ name: `_acme-challenge.${name}`, text: digestFor(challenge, account) }),
  // RFC 8737 §3.
  'tls-alpn-01': (challenge, account, name) => ({ name, text: digestFor(challenge, account) }),
  // draft-ietf-acme-dns-account-label §3.
  'dns-account-01': (challenge, account, name) => ({
    name: `_${accountLabel(account.url)}._acme-challenge.${name}`,
    text: digestFor(challenge, account),
  }),
  // draft-ietf-acme-dns-persist §3.1.
  'dns-persist-01': (challenge, account, name) => ({
    name: `_validation-persist.${name}`,
    text: `${issuerOf(challenge)}; accounturi=${account.url}`,
  }),
}

/** Methods that `bench/responder` answers. */
export const ANSWERED_TYPES = ['http-01', ...Object.keys(PROOFS)]

/** @returns undefined when there is nothing to publish. @throws Failure `protocol` for a challenge that lacks a member */
export function proofFor(challenge: Challenge, account: Account, name: string): Proof | undefined {
  return PROOFS[challenge.type]?.(challenge, account, name)
}

function digestFor({ type, token }: Challenge, { thumbprint }: Account): string {
  if (typeof token !== 'string') throw new Failure('protocol', `the ${type} challenge has no token`)
  return createHash('sha256').update(`${token}.${thumbprint}`).digest('base64url')
}

function issuerOf(challenge: Challenge): string {
  const names = challenge['issuer-domain-names']
  const first: unknown = Array.isArray(names) ? names[0] : undefined
  if (typeof first !== 'string') throw new Failure('protocol', 'the dns-persist-01 challenge names no issuer')
  return first
}

/** The first ten bytes of the SHA-256 of the account's URL, in base32 (RFC 4648 §6). */
function accountLabel(url: string): string {
  const bytes = createHash('sha256').update(url).digest().subarray(0, 10)
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  return bits.replaceAll(/.{5}/g, (five) => 'abcdefghijklmnopqrstuvwxyz234567'[Number.parseInt(five, 2)] as string)
}
