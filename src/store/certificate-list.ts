/**
 * SQL of the list of certificates. The filters choose the index: fingerprint, name, key, account,
 * revoked ones, expiry, issuer, otherwise the order of issuance.
 *
 * `certificates_issuer`, `certificates_spki` and `certificates_revoked_expiry` exist only on request
 * (optional-indexes.ts). Without them a search reads a bounded number of rows.
 */

import { z } from 'zod/v4'
import { hasSuffix, isBelow, isRareSuffix } from './certificate-suffix.ts'
import {
  ALL_ROWS,
  allOf,
  behind,
  createdBetween,
  type Fragment,
  hasIndex,
  instant,
  type ListPage,
  readPage,
  type Skip,
  unbounded,
  upTo,
  type Walk,
  walkById,
} from './list-page.ts'
import { type CommonQueryMethods, type DatabasePool, rowsOf, sql } from './slonik.ts'
import { succeededAmong } from './successors.ts'

export interface CertificateFilter {
  accountId?: string | undefined
  /** Lower-case hexadecimal. */
  serialNumber?: string | undefined
  /** SHA-256 of the certificate in lower-case hexadecimal. */
  fingerprint?: string | undefined
  /** SHA-256 of its SubjectPublicKeyInfo in lower-case hexadecimal. */
  spkiSha256?: string | undefined
  /** One of its names as in the order, `*.` for a wildcard. */
  name?: string | undefined
  /** A name that one of its names is, or lies below. */
  nameSuffix?: string | undefined
  /** The CA profile of its order. */
  profile?: string | undefined
  status?: CertificateStatus | undefined
  /** SHA-256 of the issuer certificate in lower-case hexadecimal. */
  issuer?: string | undefined
  /** The first is included, the second is not. */
  expiresAfter?: Date | undefined
  expiresBefore?: Date | undefined
  issuedAfter?: Date | undefined
  issuedBefore?: Date | undefined
  /** Included; only revoked ones have such a time. */
  revokedAfter?: Date | undefined
  /** Whether it has a successor (successors.ts). Certificates of no account are left out in both cases. */
  renewed?: boolean | undefined
}

/** Orders that an index has: by time of issuance, and by expiry. */
export const CERTIFICATE_SORTS = ['-issued_at', 'not_after', '-not_after'] as const
export type CertificateSort = (typeof CERTIFICATE_SORTS)[number]

/** As the Admin API names them; `expired` includes revoked ones that have expired. */
export const CERTIFICATE_STATUSES = ['active', 'revoked', 'expired'] as const
export type CertificateStatus = (typeof CERTIFICATE_STATUSES)[number]

const Row = z.object({
  id: z.string(),
  account_id: z.string().nullable(),
  order_id: z.string().nullable(),
  serial_number: z.string(),
  issuer_fingerprint: z.string(),
  /** Null where only issuer and serial number are known (certificate-import.ts). */
  fingerprint: z.string().nullable(),
  names: z.array(z.string()),
  not_before: z.date(),
  not_after: z.date(),
  issued_at: z.date(),
  revoked_at: z.date().nullable(),
  revocation_reason: z.int().nullable(),
})
export type ListedCertificate = z.infer<typeof Row>
const Id = z.object({ id: z.string() })
/** Ten milliseconds of looking for successors. */
const MOST_TOGETHER = 200

const columns = sql.fragment`
  c.id, c.account_id, c.order_id, encode(c.serial_number, 'hex') AS serial_number,
  encode(c.issuer_fingerprint, 'hex') AS issuer_fingerprint, encode(sha256(nullif(c.der, '')), 'hex') AS fingerprint, c.names,
  c.not_before, c.not_after, c.issued_at, c.revoked_at, c.revocation_reason`

const WithDer = Row.extend({ der: z.instanceof(Buffer) })
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
  issuers?: readonly string[],
): Promise<readonly FoundCertificate[]> {
  const ofIssuer = issuers
    ? sql.fragment`AND encode(c.issuer_fingerprint, 'hex') = ANY (${sql.array([...issuers], 'text')})`
    : sql.fragment``
  return db.any(rowsOf(WithDer)`
    SELECT ${columns}, c.der FROM certificates c
     WHERE c.serial_number = decode(${serialNumber}, 'hex') ${ofIssuer}
     ORDER BY c.der = '', c.account_id IS NULL, c.id DESC`)
}

/** certificates_fingerprint */
export function findCertificateByFingerprint(
  db: CommonQueryMethods,
  fingerprint: string,
): Promise<FoundCertificate | null> {
  return db.maybeOne(rowsOf(WithDer)`
    SELECT ${columns}, c.der FROM certificates c WHERE ${hasFingerprint(fingerprint)}`)
}

/** Conditions on `c`. */
function conditionsOf(filter: CertificateFilter): Fragment[] {
  const { accountId, serialNumber, fingerprint, spkiSha256, name, nameSuffix, profile, status, issuer } = filter
  const { expiresAfter, expiresBefore, issuedAfter, issuedBefore, revokedAfter, renewed } = filter
  return [
    ...(accountId === undefined ? [] : [sql.fragment`c.account_id = ${accountId}`]),
    ...(serialNumber === undefined ? [] : [sql.fragment`c.serial_number = decode(${serialNumber}, 'hex')`]),
    ...(fingerprint === undefined ? [] : [hasFingerprint(fingerprint)]),
    ...(spkiSha256 === undefined ? [] : [hasKey(spkiSha256)]),
    ...(name === undefined ? [] : [hasName(name)]),
    ...(nameSuffix === undefined ? [] : [isBelow(nameSuffix)]),
    ...(profile === undefined
      ? []
      : // As a join, it would begin with all orders.
        [sql.fragment`(SELECT profile FROM orders WHERE id = c.order_id) = ${profile}`]),
    ...(issuer === undefined ? [] : [sql.fragment`c.issuer_fingerprint = decode(${issuer}, 'hex')`]),
    ...(status === 'revoked' ? [sql.fragment`c.revoked_at IS NOT NULL`] : []),
    ...(status === 'active' ? [sql.fragment`c.revoked_at IS NULL AND c.not_after > now()`] : []),
    ...(status === 'expired' ? [sql.fragment`c.not_after <= now()`] : []),
    ...(expiresAfter === undefined ? [] : [sql.fragment`c.not_after >= ${instant(expiresAfter)}`]),
    ...(expiresBefore === undefined ? [] : [sql.fragment`c.not_after < ${instant(expiresBefore)}`]),
    ...(issuedAfter === undefined ? [] : [sql.fragment`c.issued_at >= ${instant(issuedAfter)}`]),
    ...(issuedBefore === undefined ? [] : [sql.fragment`c.issued_at < ${instant(issuedBefore)}`]),
    ...(revokedAfter === undefined ? [] : [sql.fragment`c.revoked_at >= ${instant(revokedAfter)}`]),
    ...(renewed === undefined ? [] : [sql.fragment`c.account_id IS NOT NULL`]),
    ...boundsOf(filter),
  ]
}

const hasFingerprint = (fingerprint: string) => sql.fragment`sha256(c.der) = decode(${fingerprint}, 'hex')`
const hasKey = (spki: string) => sql.fragment`c.spki_sha256 = decode(${spki}, 'hex')`
const hasName = (name: string) => sql.fragment`c.names @> ${sql.array([name], 'text')}`

/**
 * Newest first. With bounds of the expiry, the earliest expiry is first; for active or expired
 * ones, the latest.
 * @param after the cursor of the page before
 * @param sort another order, for the price of reading more where the filters have an index
 */
export async function listCertificates(
  db: DatabasePool,
  filter: CertificateFilter,
  after: string | undefined,
  limit: number,
  sort?: CertificateSort,
): Promise<ListPage<ListedCertificate>> {
  const { renewed } = filter
  if (renewed === undefined) return pageOf(db, filter, after, limit, sort)
  // Their successors are looked for together.
  const page = await pageOf(db, filter, after, Math.max(limit, MOST_TOGETHER), sort)
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

async function pageOf(
  db: DatabasePool,
  filter: CertificateFilter,
  after: string | undefined,
  limit: number,
  sort: CertificateSort | undefined,
): Promise<ListPage<ListedCertificate>> {
  const fits = conditionsOf(filter)
  if (filter.serialNumber !== undefined) return readPage(unbounded(alongIds(db, fits, [])), after, limit)
  const { walk, order } = await wayOf(db, filter, fits, sort)
  const found = await fewOf(db, filter)
  return readPage(found ? alongFound(db, found, fits, order) : walk, after, limit)
}

/** A condition that few certificates meet and an index answers. */
async function fewOf(
  db: DatabasePool,
  { fingerprint, spkiSha256, name, nameSuffix }: CertificateFilter,
): Promise<Fragment | undefined> {
  if (fingerprint !== undefined) return hasFingerprint(fingerprint)
  if (name !== undefined) return hasName(name)
  if (spkiSha256 !== undefined && (await hasIndex(db, 'certificates_spki'))) return hasKey(spkiSha256)
  return nameSuffix !== undefined && (await isRareSuffix(db, nameSuffix)) ? hasSuffix(nameSuffix) : undefined
}

async function wayOf(
  db: DatabasePool,
  filter: CertificateFilter,
  fits: readonly Fragment[],
  sort: CertificateSort | undefined,
): Promise<{ walk: Walk<ListedCertificate>; order: Order }> {
  const { issuer, ...others } = filter
  const { accountId, status, expiresAfter, expiresBefore } = filter
  async function byExpiry(direction: 'ascending' | 'descending') {
    const isNarrow = status === 'revoked' && (await hasIndex(db, 'certificates_revoked_expiry'))
    const order = expiryOrder(direction)
    return { walk: alongExpiry(db, fits, filter, order, isNarrow), order }
  }
  if (sort === 'not_after') return byExpiry('ascending')
  if (sort === '-not_after') return byExpiry('descending')
  if (accountId !== undefined) return { walk: alongAccount(db, accountId, fits), order: BY_ORDER }
  if (status === 'revoked' || filter.revokedAfter !== undefined)
    return { walk: alongRevoked(db, fits, issuer), order: BY_ID }
  if (sort === undefined && (expiresAfter ?? expiresBefore)) return byExpiry('ascending')
  if (sort === undefined && status !== undefined) return byExpiry('descending')
  if (issuer !== undefined && (await hasIndex(db, 'certificates_issuer')))
    return { walk: alongIssuer(db, issuer, conditionsOf(others)), order: BY_ID }
  const walk = alongIds(db, fits, boundsOf(filter))
  return { walk: fits.length === 0 ? unbounded(walk) : walk, order: BY_ID }
}

/** Columns by which rows are sorted, and the condition of rows behind one of them. */
interface Order {
  by: Fragment
  behind(after: string | undefined): Fragment
}

const BY_ID: Order = { by: sql.fragment`c.id DESC`, behind: (after) => behind(sql.fragment`c.id`, after) }

/** Compares by the order's id, or by the row's own id without an order. A cursor may be either id. */
const behindOrder = (place: Fragment, after: string | undefined) =>
  after === undefined
    ? ALL_ROWS
    : sql.fragment`${place} < coalesce((SELECT order_id FROM certificates WHERE id = ${after}), ${after})`
const ORDER_ID = sql.fragment`coalesce(c.order_id, c.id)`
const BY_ORDER: Order = { by: sql.fragment`${ORDER_ID} DESC`, behind: (after) => behindOrder(ORDER_ID, after) }

const expiryOf = (id: string) => sql.fragment`(SELECT not_after FROM certificates WHERE id = ${id})`

/** Certificates that expire in the same second follow each other by id. */
function expiryOrder(direction: 'ascending' | 'descending'): Order & { upTo(end: string | undefined): Fragment } {
  const down = direction === 'descending'
  return {
    by: down ? sql.fragment`c.not_after DESC, c.id DESC` : sql.fragment`c.not_after, c.id`,
    behind(after) {
      if (after === undefined) return ALL_ROWS
      const place = expiryOf(after)
      return down
        ? sql.fragment`c.not_after <= ${place} AND (c.not_after, c.id) < (${place}, ${after}::uuid)`
        : sql.fragment`c.not_after >= ${place} AND (c.not_after, c.id) > (${place}, ${after}::uuid)`
    },
    upTo(end) {
      if (end === undefined) return ALL_ROWS
      const place = expiryOf(end)
      return down
        ? sql.fragment`c.not_after >= ${place} AND (c.not_after, c.id) >= (${place}, ${end}::uuid)`
        : sql.fragment`c.not_after <= ${place} AND (c.not_after, c.id) <= (${place}, ${end}::uuid)`
    },
  }
}

/**
 * Past so many rows of a list that nothing filters, along its index alone.
 * @returns undefined for a filtered list
 */
export function skipOfCertificates(
  db: DatabasePool,
  filter: CertificateFilter,
  sort: CertificateSort | undefined,
): Skip | undefined {
  if (conditionsOf(filter).length > 0) return undefined
  const isByExpiry = sort === 'not_after' || sort === '-not_after'
  const direction = sort === 'not_after' ? 'ascending' : 'descending'
  const walk = isByExpiry ? alongExpiry(db, [], filter, expiryOrder(direction), false) : alongIds(db, [], [])
  return (after, rows) => walk.windowEnd(after, rows)
}

/** Bounds on the id, which contains the time of issuance. */
const boundsOf = ({ issuedAfter, issuedBefore }: CertificateFilter) =>
  createdBetween(sql.fragment`c.id`, issuedAfter, issuedBefore)

const cursorOf = ({ id }: ListedCertificate) => id

/** certificates_pkey, or another index that the filters lead to. */
function alongIds(db: DatabasePool, fits: readonly Fragment[], bounds: readonly Fragment[]): Walk<ListedCertificate> {
  return walkById<ListedCertificate>(db, {
    table: sql.fragment`certificates c`,
    id: sql.fragment`c.id`,
    bounds,
    fits,
    read: (where, limit) =>
      db.any(rowsOf(Row)`SELECT ${columns} FROM certificates c WHERE ${where} ORDER BY c.id DESC LIMIT ${limit}`),
  })
}

/**
 * orders_account with certificates_pkey, and certificates_imported, each with its own limit: the
 * planner would sort all of both.
 */
function alongAccount(db: DatabasePool, accountId: string, fits: readonly Fragment[]): Walk<ListedCertificate> {
  const [id, orderId] = [sql.fragment`c.id`, sql.fragment`o.id`]
  const ordered = sql.fragment`o.account_id = ${accountId}`
  const imported = sql.fragment`c.account_id = ${accountId} AND c.order_id IS NULL`
  return {
    cursorOf,
    async windowEnd(after, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT p.id FROM (
          (SELECT o.id FROM orders o WHERE ${allOf([ordered, behindOrder(orderId, after)])}
            ORDER BY o.id DESC LIMIT ${rows})
          UNION ALL
          (SELECT c.id FROM certificates c WHERE ${allOf([imported, behindOrder(id, after)])}
            ORDER BY c.id DESC LIMIT ${rows})
        ) p ORDER BY p.id DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(after, end, limit) {
      return [
        ...(await db.any(rowsOf(Row)`
          SELECT c.* FROM (
            (SELECT ${columns} FROM orders o JOIN certificates c ON c.id = o.certificate_id
              WHERE ${allOf([ordered, behindOrder(orderId, after), upTo(orderId, end), ...fits])}
              ORDER BY o.id DESC LIMIT ${limit})
            UNION ALL
            (SELECT ${columns} FROM certificates c
              WHERE ${allOf([imported, behindOrder(id, after), upTo(id, end), ...fits])}
              ORDER BY c.id DESC LIMIT ${limit})
          ) c ORDER BY ${BY_ORDER.by} LIMIT ${limit}`)),
      ]
    },
  }
}

/**
 * certificates_names, certificates_suffixes, certificates_spki or certificates_fingerprint, forced: the planner
 * expects thousands of certificates a name and would read all by id.
 */
function alongFound(
  db: DatabasePool,
  found: Fragment,
  fits: readonly Fragment[],
  order: Order,
): Walk<ListedCertificate> {
  return {
    cursorOf,
    windowEnd: async () => undefined,
    async read(after, _end, limit) {
      return [
        ...(await db.any(rowsOf(Row)`
          SELECT ${columns} FROM (SELECT * FROM certificates c WHERE ${found} OFFSET 0) c
           WHERE ${allOf([order.behind(after), ...fits])} ORDER BY ${order.by} LIMIT ${limit}`)),
      ]
    },
  }
}

/**
 * certificates_issuer, forced by comparing rows: only this index has the order of both columns. The
 * planner assumes that issuers are spread evenly, and would read by id past all later issuers.
 */
function alongIssuer(db: DatabasePool, issuer: string, fits: readonly Fragment[]): Walk<ListedCertificate> {
  const fingerprint = sql.fragment`decode(${issuer}, 'hex')`
  const own = (after: string | undefined) =>
    after === undefined
      ? sql.fragment`c.issuer_fingerprint BETWEEN ${fingerprint} AND ${fingerprint}`
      : sql.fragment`c.issuer_fingerprint >= ${fingerprint} AND (c.issuer_fingerprint, c.id) < (${fingerprint}, ${after}::uuid)`
  return {
    cursorOf,
    windowEnd: async () => undefined,
    async read(after, _end, limit) {
      return [
        ...(await db.any(rowsOf(Row)`
          SELECT ${columns} FROM certificates c WHERE ${allOf([own(after), ...fits])}
           ORDER BY c.issuer_fingerprint DESC, c.id DESC LIMIT ${limit}`)),
      ]
    },
  }
}

/** certificates_revoked, one range for each issuer certificate, or for that of the filter. */
function alongRevoked(
  db: DatabasePool,
  fits: readonly Fragment[],
  issuer: string | undefined,
): Walk<ListedCertificate> {
  const id = sql.fragment`c.id`
  const issuers = issuer === undefined ? ALL_ROWS : sql.fragment`fingerprint = decode(${issuer}, 'hex')`
  const ofEachIssuer = (read: Fragment, conditions: readonly Fragment[], limit: number) => sql.fragment`
    (SELECT fingerprint FROM issuers WHERE ${issuers}) i CROSS JOIN LATERAL (
      SELECT ${read} FROM certificates c
       WHERE c.issuer_fingerprint = i.fingerprint AND c.revoked_at IS NOT NULL AND ${allOf(conditions)}
       ORDER BY c.id DESC LIMIT ${limit}) c`
  return {
    cursorOf,
    async windowEnd(after, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT c.id FROM ${ofEachIssuer(id, [behind(id, after)], rows)} ORDER BY c.id DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(after, end, limit) {
      return [
        ...(await db.any(rowsOf(Row)`
          SELECT c.* FROM ${ofEachIssuer(columns, [behind(id, after), upTo(id, end), ...fits], limit)}
           ORDER BY c.id DESC LIMIT ${limit}`)),
      ]
    },
  }
}

/** certificates_not_after, or certificates_revoked_expiry. */
function alongExpiry(
  db: DatabasePool,
  fits: readonly Fragment[],
  { status, expiresAfter, expiresBefore }: CertificateFilter,
  order: ReturnType<typeof expiryOrder>,
  isNarrow: boolean,
): Walk<ListedCertificate> {
  const bounds = [
    ...(expiresAfter ? [sql.fragment`c.not_after >= ${instant(expiresAfter)}`] : []),
    ...(expiresBefore ? [sql.fragment`c.not_after < ${instant(expiresBefore)}`] : []),
    ...(status === 'active' ? [sql.fragment`c.not_after > now()`] : []),
    ...(status === 'expired' ? [sql.fragment`c.not_after <= now()`] : []),
    ...(isNarrow ? [sql.fragment`c.revoked_at IS NOT NULL`] : []),
  ]
  return {
    cursorOf,
    async windowEnd(after, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT c.id FROM certificates c WHERE ${allOf([order.behind(after), ...bounds])}
         ORDER BY ${order.by} OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(after, end, limit) {
      return [
        ...(await db.any(rowsOf(Row)`
          SELECT ${columns} FROM certificates c WHERE ${allOf([order.behind(after), order.upTo(end), ...fits])}
           ORDER BY ${order.by} LIMIT ${limit}`)),
      ]
    },
  }
}
