/** Ways to the certificates of an account, or of the accounts of a registrar, which lead over their orders. */

import * as z from 'zod/v4'
import { allOf, type Fragment, hasTagOf, isAmongAccountsOf, upTo } from '../../store/list-page.ts'
import { type CommonQueryMethods, rowsOf, sql } from '../../store/slonik.ts'
import { type CertificateFilter, conditionsOf } from './certificate-filter.ts'
import { along, BY_ORDER, behindOrder, endsOf, ID, type Order, type Part, type Way } from './certificate-orders.ts'

/**
 * orders_account with certificates_pkey, and certificates_imported, each with its own limit: the
 * planner would sort all of both.
 */
export function alongAccount(accountId: string): Way {
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
export async function wayOfScope(
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
