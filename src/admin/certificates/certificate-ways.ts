/**
 * Orders of a list of certificates, ways along an index in such an order, and the choice of the way.
 *
 * A condition that few certificates meet leads to its index, in any order. A requested order leads to the index of that
 * order. Otherwise the narrowest index in the order of issuance is taken.
 */

import * as z from 'zod/v4'
import {
  ALL_ROWS,
  allOf,
  behind,
  type Fragment,
  hasIndex,
  hasTagOf,
  isAmongAccountsOf,
  upTo,
} from '../../store/list-page.ts'
import { SEARCH_INDEXES } from '../../store/optional-indexes.ts'
import { type CommonQueryMethods, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import type { CertificateSort } from '../resources/certificates.ts'
import {
  boundsOf,
  type CertificateFilter,
  CONDITIONS,
  conditionsOf,
  HAS_ENDED,
  hasSuffix,
  IS_CURRENT,
  IS_MUTED,
  IS_REVOKED,
  isRareSuffix,
} from './certificate-filter.ts'

/** Columns by which rows are sorted, and the conditions of rows behind one of them and up to one. */
interface Order {
  by: Fragment
  behind(after: string | undefined): Fragment
  upTo(end: string | undefined): Fragment
}

/** Rows behind a cursor and up to the end of a window; at most `limit` of them are wanted. */
interface Part {
  after: string | undefined
  end: string | undefined
  where: readonly Fragment[]
  limit: number
}

export interface Way {
  by: Fragment
  /** Certificates `c` of a part, for FROM. */
  rows(part: Part): Fragment
  /** Entries of the index, with or without a match. Absent where the index holds hardly more than the matches. */
  entries?: (after: string | undefined, limit: number) => Fragment
  /** Replaces the conditions of the filter, where the index answers some of them. */
  fits?: readonly Fragment[]
}

/** Conditions that the indexes by expiry answer. */
const endsOf = ({ status, expiring_after, expiring_before }: CertificateFilter): Fragment[] => [
  ...conditionsOf({ expiring_after, expiring_before }),
  ...(status === 'active' ? [IS_CURRENT] : []),
  ...(status === 'expired' ? [HAS_ENDED] : []),
]

const ID = sql.fragment`c.id`
const BY_ID: Order = {
  by: sql.fragment`c.id DESC`,
  behind: (after) => behind(ID, after),
  upTo: (end) => upTo(ID, end),
}

/** Compares by the order's id, or by the row's own id without an order. A cursor may be either id. */
const behindOrder = (place: Fragment, after: string | undefined) =>
  after === undefined
    ? ALL_ROWS
    : sql.fragment`${place} < coalesce((SELECT order_id FROM certificates WHERE id = ${after}), ${after})`
const ORDER_ID = sql.fragment`coalesce(c.order_id, c.id)`
const BY_ORDER: Order = {
  by: sql.fragment`${ORDER_ID} DESC`,
  behind: (after) => behindOrder(ORDER_ID, after),
  upTo: (end) => upTo(ORDER_ID, end),
}

/** Certificates that expire in the same second follow each other by id. */
const EARLIEST_FIRST: Order = {
  by: sql.fragment`c.not_after, c.id`,
  behind: (after) => comparedByExpiry('>', after),
  upTo: (end) => comparedByExpiry('<=', end),
}
const LATEST_FIRST: Order = {
  by: sql.fragment`c.not_after DESC, c.id DESC`,
  behind: (after) => comparedByExpiry('<', after),
  upTo: (end) => comparedByExpiry('>=', end),
}

function comparedByExpiry(sign: '<' | '<=' | '>' | '>=', id: string | undefined): Fragment {
  if (id === undefined) return ALL_ROWS
  const end = sql.fragment`(SELECT not_after FROM certificates WHERE id = ${id})`
  const side = constantSql(sign.startsWith('<') ? '<=' : '>=')
  return sql.fragment`
    c.not_after ${side} ${end} AND (c.not_after, c.id) ${constantSql(sign)} (${end}, ${id}::uuid)`
}

/** @param bounds conditions that the index answers; undefined where it leads to the fitting rows */
function along(order: Order, bounds?: readonly Fragment[]): Way {
  const rows = (conditions: readonly Fragment[]) => sql.fragment`certificates c WHERE ${allOf(conditions)}`
  return {
    by: order.by,
    rows: ({ after, end, where }) => rows([order.behind(after), order.upTo(end), ...where]),
    ...(bounds && { entries: (after) => rows([order.behind(after), ...bounds]) }),
  }
}

/**
 * The index of the condition is forced: the planner expects thousands of certificates a name and would read all by id.
 */
const among = (condition: Fragment, order: Order): Way => ({
  by: order.by,
  rows: ({ after, where }) => sql.fragment`
    (SELECT * FROM certificates c WHERE ${condition} OFFSET 0) c WHERE ${allOf([order.behind(after), ...where])}`,
})

interface Wanted {
  filter: CertificateFilter
  order: Order
  isByExpiry: boolean
}

type WayFor = (wanted: Wanted, db: CommonQueryMethods) => Way | undefined | Promise<Way | undefined>

/**
 * By index, in this order: the first that suits and exists is taken. Some exist only on request
 * (optional-indexes.ts); without them a search reads a bounded number of rows.
 */
const WAYS: Readonly<Record<string, WayFor>> = {
  certificates_serial_issuer: ({ filter }) => given(filter.serial, () => along(BY_ID)),
  certificates_fingerprint: ({ filter, order }) =>
    given(filter.fingerprint, (fingerprint) => among(CONDITIONS.fingerprint(fingerprint), order)),
  certificates_names: ({ filter, order }) => given(filter.domain, (name) => among(CONDITIONS.domain(name), order)),
  certificates_spki: ({ filter, order }) =>
    given(filter.spki_sha256, (spki) => among(CONDITIONS.spki_sha256(spki), order)),
  certificates_suffixes: ({ filter, order }, db) =>
    given(filter.domain_suffix, async (suffix) =>
      (await isRareSuffix(db, suffix)) ? among(hasSuffix(suffix), order) : undefined,
    ),
  renewal_mutes_pkey: ({ filter, order }) => (filter.muted ? among(IS_MUTED, order) : undefined),
  accounts_tags: ({ filter, order }, db) => given(filter.scope, (tags) => wayOfScope(db, tags, filter, order)),
  certificates_revoked_expiry: ({ filter, order, isByExpiry }) =>
    isByExpiry && filter.status === 'revoked' ? along(order, [...endsOf(filter), IS_REVOKED]) : undefined,
  certificates_not_after: ({ filter, order, isByExpiry }) => (isByExpiry ? along(order, endsOf(filter)) : undefined),
  orders_account: ({ filter }) => given(filter.account_id, alongAccount),
  certificates_revoked: ({ filter }) => (isRevoked(filter) ? alongRevoked(filter.issuer) : undefined),
  certificates_issuer: ({ filter }) => given(filter.issuer, (issuer) => alongIssuer(issuer, filter)),
  certificates_pkey: ({ filter }) => along(BY_ID, isEmpty(filter) ? undefined : boundsOf(filter)),
}

export async function wayOf(db: CommonQueryMethods, filter: CertificateFilter, sort: CertificateSort): Promise<Way> {
  const isByExpiry = sort !== '-issued_at'
  const wanted = { filter, isByExpiry, order: orderOf(sort, filter) }
  for (const [index, wayFor] of Object.entries(WAYS)) {
    const way = await wayFor(wanted, db)
    if (way && (!(index in SEARCH_INDEXES) || (await hasIndex(db, index)))) return way
  }
  throw new Error('certificates_pkey suits every list')
}

/** The whole list along its index. */
export const wayOfAll = (sort: CertificateSort): Way => along(orderOf(sort, {}), [])

function orderOf(sort: CertificateSort, { account_id, scope }: CertificateFilter): Order {
  if (sort === '-issued_at') return account_id === undefined && scope === undefined ? BY_ID : BY_ORDER
  return sort === 'not_after' ? EARLIEST_FIRST : LATEST_FIRST
}

const given = <T, R>(value: T | undefined, then: (value: T) => R): R | undefined =>
  value === undefined ? undefined : then(value)
const isRevoked = ({ status, revoked_after }: CertificateFilter) => status === 'revoked' || revoked_after !== undefined
export const isEmpty = (filter: CertificateFilter) => Object.values(filter).every((value) => value === undefined)

/** One range for each issuer certificate, or for the one that the filter names. */
function alongRevoked(issuer: string | undefined): Way {
  const issuers = issuer === undefined ? ALL_ROWS : sql.fragment`fingerprint = decode(${issuer}, 'hex')`
  const ofEachIssuer = (conditions: readonly Fragment[], limit: number) => sql.fragment`
    (SELECT fingerprint FROM issuers WHERE ${issuers}) i CROSS JOIN LATERAL (
      SELECT c.* FROM certificates c WHERE ${allOf([sql.fragment`c.issuer_fingerprint = i.fingerprint`, IS_REVOKED, ...conditions])}
       ORDER BY c.id DESC LIMIT ${limit}) c`
  return {
    by: BY_ID.by,
    rows: ({ after, end, where, limit }) => ofEachIssuer([BY_ID.behind(after), BY_ID.upTo(end), ...where], limit),
    entries: (after, limit) => ofEachIssuer([BY_ID.behind(after)], limit),
  }
}

/**
 * Forced by comparing rows: only this index has the order of both columns. The planner assumes that
 * issuers are spread evenly, and would read by id past all later issuers.
 */
function alongIssuer(issuer: string, filter: CertificateFilter): Way {
  const own = sql.fragment`decode(${issuer}, 'hex')`
  const order: Order = {
    by: sql.fragment`c.issuer_fingerprint DESC, c.id DESC`,
    behind: (after) =>
      after === undefined
        ? sql.fragment`c.issuer_fingerprint BETWEEN ${own} AND ${own}`
        : sql.fragment`c.issuer_fingerprint >= ${own} AND (c.issuer_fingerprint, c.id) < (${own}, ${after}::uuid)`,
    upTo: () => ALL_ROWS,
  }
  return { ...along(order), fits: conditionsOf({ ...filter, issuer: undefined }) }
}

/**
 * The ways to the certificates of an account, or of the accounts of a registrar, lead over their orders: orders_account
 * with certificates_pkey, and certificates_imported, each with its own limit: the planner would sort all of both.
 */
function alongAccount(accountId: string): Way {
  const account = sql.fragment`${accountId}::uuid`
  return {
    by: BY_ORDER.by,
    rows: (part) => sql.fragment`(${newestOfAccount(account, part)}) c`,
    entries: (after, limit) => entriesOfAccount(account, after, limit),
  }
}

function entriesOfAccount(account: Fragment, after: string | undefined, limit: number): Fragment {
  const { ordered, imported } = rowsOfAccount(account)
  return sql.fragment`(
      (SELECT o.id, o.id AS order_id FROM orders o WHERE ${allOf([ordered, behindOrder(ORDERS_ID, after)])}
        ORDER BY o.id DESC LIMIT ${limit})
      UNION ALL
      (SELECT c.id, c.order_id FROM certificates c WHERE ${allOf([imported, behindOrder(ID, after)])}
        ORDER BY c.id DESC LIMIT ${limit})) c`
}

const ORDERS_ID = sql.fragment`o.id`
const rowsOfAccount = (account: Fragment) => ({
  ordered: sql.fragment`o.account_id = ${account}`,
  imported: sql.fragment`c.account_id = ${account} AND c.order_id IS NULL`,
})

function newestOfAccount(account: Fragment, { after, end, where, limit }: Part): Fragment {
  const { ordered, imported } = rowsOfAccount(account)
  return sql.fragment`
      (SELECT c.* FROM orders o JOIN certificates c ON c.id = o.certificate_id
        WHERE ${allOf([ordered, behindOrder(ORDERS_ID, after), upTo(ORDERS_ID, end), ...where])}
        ORDER BY o.id DESC LIMIT ${limit})
      UNION ALL
      (SELECT c.* FROM certificates c WHERE ${allOf([imported, behindOrder(ID, after), upTo(ID, end), ...where])}
        ORDER BY c.id DESC LIMIT ${limit})`
}

/** So many are read and sorted in 200 ms; of more, the index by expiry has a page sooner, also among ten million. */
const MOST_SORTED = 20_000

const hasMany = (db: CommonQueryMethods, tags: readonly string[]): Promise<boolean> =>
  db.exists(rowsOf(z.object({}))`
    SELECT FROM accounts s CROSS JOIN LATERAL (
      SELECT FROM orders o WHERE o.account_id = s.id LIMIT ${MOST_SORTED + 1}) o
     WHERE ${hasTagOf(sql.fragment`s`, tags)} OFFSET ${MOST_SORTED} LIMIT 1`)

/** No window ends at a certificate of others, so that no cursor names one. */
async function wayOfScope(
  db: CommonQueryMethods,
  tags: readonly string[],
  filter: CertificateFilter,
  order: Order,
): Promise<Way> {
  if (!(await hasMany(db, tags))) return alongScope(tags, filter, order)
  if (order === BY_ORDER) return { ...alongScope(tags, filter, order), entries: entriesOfScope(tags, filter) }
  const inScope = isAmongAccountsOf(sql.fragment`c.account_id`, tags)
  const fits = [...conditionsOf({ ...filter, scope: undefined }), inScope]
  return { ...along(order, [...endsOf(filter), inScope]), fits }
}

const OF_EACH = sql.fragment`s.id`
const certificatesOfEach = (tags: readonly string[], { account_id }: CertificateFilter, part: Fragment): Fragment => {
  const ofAccount = account_id === undefined ? [] : [sql.fragment`s.id = ${account_id}`]
  return sql.fragment`
    (SELECT c.* FROM accounts s CROSS JOIN LATERAL (${part}) c
      WHERE ${allOf([hasTagOf(sql.fragment`s`, tags), ...ofAccount])}) c`
}

const entriesOfScope =
  (tags: readonly string[], filter: CertificateFilter): NonNullable<Way['entries']> =>
  (after, limit) =>
    certificatesOfEach(tags, filter, sql.fragment`SELECT c.* FROM ${entriesOfAccount(OF_EACH, after, limit)}`)

/** By the accounts of a registrar, each with its newest, or in another order with all. */
function alongScope(tags: readonly string[], filter: CertificateFilter, order: Order): Way {
  const { ordered, imported } = rowsOfAccount(OF_EACH)
  const all = (conditions: readonly Fragment[]) => sql.fragment`
    SELECT c.* FROM orders o JOIN certificates c ON c.id = o.certificate_id WHERE ${allOf([ordered, ...conditions])}
    UNION ALL
    SELECT c.* FROM certificates c WHERE ${allOf([imported, ...conditions])}`
  const rows = (part: Part) =>
    order === BY_ORDER ? newestOfAccount(OF_EACH, part) : all([order.behind(part.after), ...part.where])
  return {
    by: order.by,
    fits: conditionsOf({ ...filter, scope: undefined }),
    rows: (part) => certificatesOfEach(tags, filter, rows(part)),
  }
}
