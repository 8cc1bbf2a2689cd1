/** Filters of a list of certificates `c`, as conditions in SQL. */

import * as z from 'zod/v4'
import { certificateSample } from './certificate-sample.ts'
import { createdBetween, type Fragment, instant } from './list-page.ts'
import { isWindowOpen, type OpenWindow } from './renewal-window-store.ts'
import { isAccountInScope } from './scope.ts'
import { type CommonQueryMethods, rowsOf, sql } from './slonik.ts'

/** As the Admin API names them. Each certificate has one: `revoked` includes those that have ended since. */
export const CERTIFICATE_STATUSES = ['active', 'revoked', 'expired'] as const
export type CertificateStatus = (typeof CERTIFICATE_STATUSES)[number]

interface Members {
  accountId: string
  /** Lower-case hexadecimal. */
  serialNumber: string
  /** SHA-256 of the certificate in lower-case hexadecimal. */
  fingerprint: string
  /** SHA-256 of its SubjectPublicKeyInfo in lower-case hexadecimal. */
  spkiSha256: string
  /** One of its names as in the order, `*.` for a wildcard. */
  name: string
  /** A name that one of its names is, or lies below. */
  nameSuffix: string
  /** The CA profile of its order. */
  profile: string
  status: CertificateStatus
  /** SHA-256 of the issuer certificate in lower-case hexadecimal. */
  issuer: string
  /** The first is included, the second is not. */
  expiresAfter: Date
  expiresBefore: Date
  issuedAfter: Date
  issuedBefore: Date
  /** Included; only revoked ones have such a time. */
  revokedAfter: Date
  /** Whether it has a successor (certificate-list.ts). Certificates of no account are left out in both cases. */
  renewed: boolean
  /** The renewal window is open. */
  windowOpen: OpenWindow
  /** An administrator has muted the certificate. */
  muted: boolean
  /** Tags of which its account has one. */
  scope: readonly string[]
}
export type CertificateFilter = { [K in keyof Members]?: Members[K] | undefined }

export const IS_REVOKED = sql.fragment`c.revoked_at IS NOT NULL`
export const IS_CURRENT = sql.fragment`c.not_after > now()`
export const HAS_ENDED = sql.fragment`c.not_after <= now()`

/** Mutes are few. */
export const IS_MUTED = sql.fragment`
  c.id IN (SELECT certificate_id FROM renewal_mutes WHERE muted_until IS NULL OR muted_until > now())`

const HAS_STATUS: Record<CertificateStatus, Fragment> = {
  active: sql.fragment`c.revoked_at IS NULL AND ${IS_CURRENT}`,
  expired: sql.fragment`c.revoked_at IS NULL AND ${HAS_ENDED}`,
  revoked: IS_REVOKED,
}

export const CONDITIONS: { [K in keyof Members]: (value: Members[K]) => Fragment } = {
  accountId: (id) => sql.fragment`c.account_id = ${id}`,
  serialNumber: (serial) => sql.fragment`c.serial_number = decode(${serial}, 'hex')`,
  fingerprint: (fingerprint) => sql.fragment`sha256(c.der) = decode(${fingerprint}, 'hex')`,
  spkiSha256: (spki) => sql.fragment`c.spki_sha256 = decode(${spki}, 'hex')`,
  name: (name) => sql.fragment`c.names @> ${sql.array([name], 'text')}`,
  // For rows that another index finds: not LIKE, which has wildcards.
  nameSuffix: (suffix) => sql.fragment`
    EXISTS (SELECT FROM unnest(c.names) n WHERE n = ${suffix} OR right(n, ${suffix.length + 1}) = ${`.${suffix}`})`,
  // As a join, it would begin with all orders.
  profile: (profile) => sql.fragment`(SELECT profile FROM orders WHERE id = c.order_id) = ${profile}`,
  status: (status) => HAS_STATUS[status],
  issuer: (issuer) => sql.fragment`c.issuer_fingerprint = decode(${issuer}, 'hex')`,
  expiresAfter: (at) => sql.fragment`c.not_after >= ${instant(at)}`,
  expiresBefore: (at) => sql.fragment`c.not_after < ${instant(at)}`,
  issuedAfter: (at) => sql.fragment`c.issued_at >= ${instant(at)}`,
  issuedBefore: (at) => sql.fragment`c.issued_at < ${instant(at)}`,
  revokedAfter: (at) => sql.fragment`c.revoked_at >= ${instant(at)}`,
  renewed: () => sql.fragment`c.account_id IS NOT NULL`,
  windowOpen: isWindowOpen,
  muted: (isMuted) => (isMuted ? IS_MUTED : sql.fragment`NOT ${IS_MUTED}`),
  scope: (tags) => isAccountInScope(sql.fragment`c.account_id`, tags),
}

export function conditionsOf(filter: CertificateFilter): Fragment[] {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  const conditions = given.map(([member, value]) => CONDITIONS[member as keyof Members](value as never))
  return [...conditions, ...boundsOf(filter)]
}

/** Bounds on the id, which contains the time of issuance. */
export const boundsOf = ({ issuedAfter, issuedBefore }: CertificateFilter): Fragment[] =>
  createdBetween(sql.fragment`c.id`, issuedAfter, issuedBefore)

/** As the condition `nameSuffix`, by certificates_suffixes. */
export const hasSuffix = (suffix: string) => sql.fragment`name_suffixes(c.names) @> ${sql.array([suffix], 'text')}`

/** Rows that certificates_suffixes may find: the index has no order, so a page reads all of them. */
const MOST_FOUND = 20_000
const SAMPLED = 2_000

const Share = z.object({ is_rare: z.boolean() })

/** Estimated from a sample of the whole table, so a name of past years counts as one of today. */
export async function isRareSuffix(db: CommonQueryMethods, suffix: string): Promise<boolean> {
  const { share, isInSample } = await certificateSample(db, SAMPLED)
  const row = await db.one(rowsOf(Share)`
    SELECT count(*) <= ${MOST_FOUND * share}::float8 AS is_rare
      FROM certificates c WHERE ${isInSample} AND ${CONDITIONS.nameSuffix(suffix)}`)
  return row.is_rare
}
