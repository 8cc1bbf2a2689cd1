/** Filters of a list of certificates `c`, as conditions in SQL. */

import * as z from 'zod/v4'
import { createdBetween, type Fragment, instant, isAccountInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { allGiven, type Conditions } from '../filter-schemas.ts'
import type { CertificateQuery } from '../resources/certificates.ts'
import { isWindowOpen, type OpenWindow } from './renewal-window-store.ts'

/** Filters that the service itself sets, beside a query. */
interface OwnFilter {
  /** The renewal window is open. */
  windowOpen: OpenWindow
  /** An administrator has muted the certificate. */
  muted: boolean
  /** Tags of which its account has one. */
  scope: readonly string[]
}
export type CertificateFilter = CertificateQuery & { [K in keyof OwnFilter]?: OwnFilter[K] | undefined }

export const IS_REVOKED = sql.fragment`c.revoked_at IS NOT NULL`
export const IS_CURRENT = sql.fragment`c.not_after > now()`
export const HAS_ENDED = sql.fragment`c.not_after <= now()`

/** Mutes are few. */
export const IS_MUTED = sql.fragment`
  c.id IN (SELECT certificate_id FROM renewal_mutes WHERE muted_until IS NULL OR muted_until > now())`

const HAS_STATUS: Record<NonNullable<CertificateQuery['status']>, Fragment> = {
  active: sql.fragment`c.revoked_at IS NULL AND ${IS_CURRENT}`,
  expired: sql.fragment`c.revoked_at IS NULL AND ${HAS_ENDED}`,
  revoked: IS_REVOKED,
}

/** 'RSA-2048', 'P-256' and so on (migrations/0037_key_types.sql). */
export const KEY_TYPE = sql.fragment`key_type(c.der)`

function hasKeyType(type: NonNullable<CertificateQuery['key_type']>): Fragment {
  if (type === 'RSA') return sql.fragment`starts_with(${KEY_TYPE}, 'RSA-')`
  const [, bits] = /^RSA-below-(\d+)$/.exec(type) ?? []
  if (bits === undefined) return sql.fragment`${KEY_TYPE} = ${type}`
  return sql.fragment`substring(${KEY_TYPE} FROM '^RSA-([0-9]+)$')::integer < ${bits}::integer`
}

const hasHex = (column: Fragment) => (hex: string) => sql.fragment`${column} = decode(${hex}, 'hex')`
const at = (time: Date | string) => instant(new Date(time))

/** @param sign whether what was issued at the time itself is meant, too */
export const issuedAfter = (sign: '>=' | '>') => (time: Date | string) =>
  sql.fragment`c.issued_at ${constantSql(sign)} ${at(time)}`

/** By the members of a query, in its own words. A time is included in what is after it. */
export const CONDITIONS = {
  account_id: (id) => sql.fragment`c.account_id = ${id}`,
  serial: hasHex(sql.fragment`c.serial_number`),
  fingerprint: hasHex(sql.fragment`sha256(c.der)`),
  spki_sha256: hasHex(sql.fragment`c.spki_sha256`),
  key_type: hasKeyType,
  domain: (name) => sql.fragment`c.names @> ${sql.array([name], 'text')}`,
  // For rows that another index finds: not LIKE, which has wildcards.
  domain_suffix: (suffix) => sql.fragment`
    EXISTS (SELECT FROM unnest(c.names) n WHERE n = ${suffix} OR right(n, ${suffix.length + 1}) = ${`.${suffix}`})`,
  status: (status) => HAS_STATUS[status],
  // Whether a certificate has a successor is asked of a whole page (certificate-list.ts).
  renewed: () => sql.fragment`c.account_id IS NOT NULL`,
  expiring_after: (time) => sql.fragment`c.not_after >= ${at(time)}`,
  expiring_before: (time) => sql.fragment`c.not_after < ${at(time)}`,
  issued_after: issuedAfter('>='),
  issued_before: (time) => sql.fragment`c.issued_at < ${at(time)}`,
  revoked_after: (time) => sql.fragment`c.revoked_at >= ${at(time)}`,
  issuer: hasHex(sql.fragment`c.issuer_fingerprint`),
  // As a join, it would begin with all orders.
  profile: (profile) => sql.fragment`(SELECT profile FROM orders WHERE id = c.order_id) = ${profile}`,
  windowOpen: isWindowOpen,
  muted: (isMuted) => (isMuted ? IS_MUTED : sql.fragment`NOT ${IS_MUTED}`),
  scope: (tags) => isAccountInScope(sql.fragment`c.account_id`, tags),
} satisfies Conditions<CertificateFilter>

export const conditionsOf = (filter: CertificateFilter): Fragment[] => [
  ...allGiven(CONDITIONS, filter),
  ...boundsOf(filter),
]

/** Bounds on the id, which contains the time of issuance. */
export const boundsOf = ({ issued_after, issued_before }: CertificateFilter): Fragment[] =>
  createdBetween(sql.fragment`c.id`, issued_after, issued_before)

/** The same as the condition of `domain_suffix`, by certificates_suffixes. */
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
      FROM certificates c WHERE ${isInSample} AND ${CONDITIONS.domain_suffix(suffix)}`)
  return row.is_rare
}

const Estimate = z.object({ rows: z.float64() })

/** Octets of a fingerprint that choose; shares of 10⁻¹⁴ differ. */
const OCTETS = 6

/**
 * A condition that some `rows` certificates fulfil, along certificates_fingerprint: fingerprints are as good as random.
 * @returns also their share: 1 where the table has no more
 */
export async function certificateSample(db: CommonQueryMethods, rows: number) {
  const { rows: all } = await db.one(rowsOf(Estimate)`
    SELECT greatest(reltuples, 0)::float8 AS rows FROM pg_class WHERE oid = 'certificates'::regclass`)
  const share = Math.min(1, rows / Math.max(1, all))
  if (share === 1) return { share, isInSample: sql.fragment`true` }
  const from = Math.random() * (1 - share)
  const isInSample = sql.fragment`
    sha256(c.der) >= ${sql.binary(fingerprintAt(from))} AND sha256(c.der) < ${sql.binary(fingerprintAt(from + share))}`
  return { share, isInSample }
}

/** @param share of all fingerprints that are below */
function fingerprintAt(share: number): Buffer {
  const octets = Buffer.alloc(OCTETS)
  octets.writeUIntBE(Math.min(Math.floor(share * 2 ** (8 * OCTETS)), 2 ** (8 * OCTETS) - 1), 0, OCTETS)
  return octets
}
