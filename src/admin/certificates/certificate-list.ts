/** SQL of certificates as administrators see them: one by its serial number or fingerprint, and lists. */

import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import { ARCHIVE_WALK } from '../../store/archive-store.ts'
import { NAMES_TO_SUCCEED } from '../../store/expiration-store.ts'
import {
  type Fragment,
  isAccountInScope,
  type ListPage,
  readPage,
  type Skip,
  type Walk,
} from '../../store/list-page.ts'
import { type CommonQueryMethods, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { type CertificateSort, usualSort } from '../resources/certificates.ts'
import { type CertificateFilter, CONDITIONS, conditionsOf, KEY_TYPE } from './certificate-filter.ts'
import { isEmpty, type Way, wayOf, wayOfAll } from './certificate-ways.ts'

export const CertificateRow = z.object({
  id: z.string(),
  account_id: z.string().nullable(),
  order_id: z.string().nullable(),
  serial_number: z.string(),
  issuer_fingerprint: z.string(),
  /** Null where only issuer and serial number are known (certificate-import.ts). */
  fingerprint: z.string().nullable(),
  key_type: z.string().nullable(),
  names: z.array(z.string()),
  not_before: z.date(),
  not_after: z.date(),
  issued_at: z.date(),
  revoked_at: z.date().nullable(),
  revocation_reason: z.int().nullable(),
})
export type ListedCertificate = z.infer<typeof CertificateRow>
const Id = z.object({ id: z.string() })

const columns = sql.fragment`
  c.id, c.account_id, c.order_id, encode(c.serial_number, 'hex') AS serial_number,
  encode(c.issuer_fingerprint, 'hex') AS issuer_fingerprint, encode(sha256(nullif(c.der, '')), 'hex') AS fingerprint, c.names,
  c.not_before, c.not_after, c.issued_at, c.revoked_at, c.revocation_reason, ${KEY_TYPE} AS key_type`

const ofScope = (scope: Scope) => isAccountInScope(sql.fragment`c.account_id`, scope)

const WithDer = CertificateRow.extend({ der: z.instanceof(Buffer) })
export type FoundCertificate = z.infer<typeof WithDer>

/**
 * Several issuers may give the same serial number. Certificates of accounts come first and rows without content last, the
 * newer before the older.
 * @param serialNumber lower-case hexadecimal without leading zero octets
 * @param issuers SHA-256 of issuer certificates in lower-case hexadecimal; undefined for all
 */
export function findCertificatesBySerial(
  db: CommonQueryMethods,
  serialNumber: string,
  scope: Scope,
  issuers?: readonly string[],
): Promise<readonly FoundCertificate[]> {
  const ofIssuer = issuers
    ? sql.fragment`AND encode(c.issuer_fingerprint, 'hex') = ANY (${sql.array([...issuers], 'text')})`
    : sql.fragment``
  return db.any(rowsOf(WithDer)`
    SELECT ${columns}, c.der FROM certificates c
     WHERE ${CONDITIONS.serial(serialNumber)} AND ${ofScope(scope)} ${ofIssuer}
     ORDER BY c.der = '', c.account_id IS NULL, c.id DESC`)
}

/** Whether certificates have left the database for the archive. */
export const isAnyArchived = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(rowsOf(z.object({}))`SELECT FROM cleanup_progress WHERE task = ${ARCHIVE_WALK}`)

/** certificates_fingerprint */
export function findCertificateByFingerprint(
  db: CommonQueryMethods,
  fingerprint: string,
  scope: Scope,
): Promise<FoundCertificate | null> {
  return db.maybeOne(rowsOf(WithDer)`
    SELECT ${columns}, c.der FROM certificates c WHERE ${CONDITIONS.fingerprint(fingerprint)} AND ${ofScope(scope)}`)
}

/** Ten milliseconds of looking for successors. */
const MOST_TOGETHER = 200

/**
 * @param after the cursor of the page before
 * @param sort an order other than the usual one costs more where the filters have an index
 */
export async function listCertificates(
  db: CommonQueryMethods,
  filter: CertificateFilter,
  after: string | undefined,
  limit: number,
  sort = usualSort(filter),
): Promise<ListPage<ListedCertificate>> {
  const { renewed } = filter
  const walk = walkAlong(db, await wayOf(db, filter, sort), conditionsOf(filter))
  if (renewed === undefined) return readPage(walk, after, limit)
  // Their successors are looked for together.
  const page = await readPage(walk, after, Math.max(limit, MOST_TOGETHER))
  const ids = page.rows.map(({ id }) => id)
  const succeeded = await succeededAmong(db, ids)
  const fitting = page.rows.filter(({ id }) => succeeded.has(id) === renewed)
  const rows = fitting.slice(0, limit)
  const isCut = fitting.length > limit
  return {
    rows,
    next: isCut ? rows.at(-1)?.id : page.next,
    isComplete: isCut || page.next === undefined,
    lookedThrough: page.lookedThrough + ids.length - rows.length,
  }
}

/**
 * Past so many rows of a list that nothing filters, along its index alone.
 * @returns undefined for a filtered list
 */
export function skipOfCertificates(
  db: CommonQueryMethods,
  filter: CertificateFilter,
  sort: CertificateSort,
): Skip | undefined {
  return isEmpty(filter) ? walkAlong(db, wayOfAll(sort), []).windowEnd : undefined
}

function walkAlong(db: CommonQueryMethods, way: Way, fits: readonly Fragment[]): Walk<ListedCertificate> {
  const { by, rows, entries, fits: where = fits } = way
  return {
    cursorOf: ({ id }) => id,
    async windowEnd(after, count) {
      if (!entries) return undefined
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT c.id FROM ${entries(after, count)} ORDER BY ${by} OFFSET ${count - 1} LIMIT 1`)
      return row?.id
    },
    async read(after, end, limit) {
      const part = rows({ after, end, where, limit })
      // A digest of each row would be made before the rows are sorted.
      const page = sql.fragment`(SELECT c.* FROM ${part} ORDER BY ${by} LIMIT ${limit}) c`
      return [...(await db.any(rowsOf(CertificateRow)`SELECT ${columns} FROM ${page} ORDER BY ${by}`))]
    },
  }
}

/**
 * Finds certificates that have a successor, by the rule of expiry warnings (expiration-store.ts). A successor comes from
 * an order that replaces the certificate, or is a later, unrevoked certificate of its account with all its names.
 *
 * certificates_names is forced (certificate-ways.ts).
 * @returns the ids of certificates that have a successor; a certificate of no account has none
 */
export async function succeededAmong(db: CommonQueryMethods, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db.any(rowsOf(Id)`
    WITH open AS MATERIALIZED (
      SELECT c.id, c.account_id, ${constantSql(NAMES_TO_SUCCEED)} AS names, c.not_after FROM certificates c
       WHERE c.id = ANY (${sql.array(ids, 'uuid')}) AND c.account_id IS NOT NULL
    )
    SELECT r.certificate_id AS id FROM open p JOIN replacements r ON r.certificate_id = p.id JOIN orders o ON o.id = r.order_id
     WHERE o.certificate_id IS NOT NULL
     UNION ALL
    SELECT p.id FROM open p
     WHERE p.names <> '{}'
       AND EXISTS (SELECT FROM (SELECT * FROM certificates n WHERE n.names @> p.names OFFSET 0) n
                    WHERE n.account_id = p.account_id AND n.not_after > p.not_after AND n.revoked_at IS NULL)`)
  return new Set(rows.map(({ id }) => id))
}
