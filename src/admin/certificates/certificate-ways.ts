/**
 * Chooses the index and the order in which a list of certificates is read.
 *
 * A condition that few certificates meet leads to its index, in any order. A requested order leads to the index of that
 * order. Otherwise the narrowest index in the order of issuance is taken.
 */

import { ALL_ROWS, allOf, type Fragment, hasIndex } from '../../store/list-page.ts'
import { SEARCH_INDEXES } from '../../store/optional-indexes.ts'
import { type CommonQueryMethods, sql } from '../../store/slonik.ts'
import type { CertificateSort } from '../resources/certificates.ts'
import { alongAccount, wayOfScope } from './certificate-account-ways.ts'
import {
  boundsOf,
  type CertificateFilter,
  CONDITIONS,
  conditionsOf,
  hasSuffix,
  IS_MUTED,
  IS_REVOKED,
  isRareSuffix,
} from './certificate-filter.ts'
import {
  along,
  among,
  BY_ID,
  BY_ORDER,
  EARLIEST_FIRST,
  endsOf,
  LATEST_FIRST,
  type Order,
  type Way,
} from './certificate-orders.ts'

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
