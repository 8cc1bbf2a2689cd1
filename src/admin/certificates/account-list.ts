/**
 * Accounts as administrators see them: how replies name them, and the SQL of their list, newest first.
 *
 * The index is accounts_eab_credential for a credential, accounts_not_valid for a rare status, otherwise accounts_pkey.
 * accounts_contacts exists only on request (optional-indexes.ts).
 */

import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import { ACCOUNT_STATUSES } from '../../domain/states.ts'
import {
  allOf,
  createdBetween,
  type Fragment,
  hasIndex,
  hasTagOf,
  instant,
  isInScope,
  type ListPage,
  readPage,
  type Skip,
  skipById,
  unbounded,
  walkById,
} from '../../store/list-page.ts'
import { type CommonQueryMethods, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { account } from '../../store/status-sql.ts'
import type { AccountQuery } from '../resources/accounts.ts'
import { allGiven, type Conditions, timeOrNull, timestamp } from '../schemas.ts'

export interface AccountNaming {
  id: string
  /** Given by an administrator. */
  label: string | null
  contacts: readonly string[]
  /** The key identifier of the credential that registered the account (RFC 8555 §7.3.4). */
  eabKid: string | null
}

/** The beginning of a UUIDv7 is its time, which many accounts share. */
const SHORT_ID = 12

/** Its label, else its first contact, else its kid, else the end of its id. */
export function accountName({ id, label, contacts, eabKid }: AccountNaming): string {
  return label ?? contacts[0]?.replace(/^mailto:/i, '') ?? eabKid ?? id.slice(-SHORT_ID)
}

/** The member `account_name` of a body that has `account_id`. */
export const accountNameMember = () =>
  z.string().nullable().meta({
    description:
      'Its label, else its first contact, else its kid, else the end of its id. Null where no account is known.',
  })

type Named<R> = R & { account_name: string | null }

/** @param rows of one page: their accounts are read with one statement */
export async function withAccountNames<R extends { account_id: string | null }>(
  db: CommonQueryMethods,
  rows: readonly R[],
): Promise<Named<R>[]> {
  const names = await namesOf(
    db,
    rows.flatMap(({ account_id: id }) => id ?? []),
  )
  return rows.map((row) => ({ ...row, account_name: names.get(row.account_id ?? '') ?? null }))
}

export async function withAccountName<R extends { account_id: string | null }>(
  db: CommonQueryMethods,
  row: R,
): Promise<Named<R>> {
  const [named = { ...row, account_name: null }] = await withAccountNames(db, [row])
  return named
}

const Naming = z.object({
  id: z.string(),
  label: z.string().nullable(),
  contacts: z.array(z.string()),
  eab_kid: z.string().nullable(),
})

/** An id without an account is missing from the result. */
export async function namesOf(db: CommonQueryMethods, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map()
  // accounts_pkey and eab_credentials_pkey, one row each
  const rows = await db.any(rowsOf(Naming)`
    SELECT a.id, a.label, a.contacts, (SELECT kid FROM eab_credentials WHERE id = a.eab_credential_id) AS eab_kid
      FROM accounts a WHERE a.id = ANY (${sql.array([...new Set(ids)], 'uuid')})`)
  return new Map(rows.map(({ eab_kid: eabKid, ...row }) => [row.id, accountName({ ...row, eabKid })]))
}

/** The members `client` and `last_seen_at` of a body about an account. */
export const activityMembers = () => ({
  client: z.string().nullable().meta({
    description: 'The User-Agent of its client when it was last seen. Null: not known.',
  }),
  last_seen_at: timestamp().nullable().meta({
    description: 'Its last registration or order, to the hour. Null: not known.',
  }),
})

export const activityBody = (seen: { user_agent: string | null; last_seen_at: Date | null } | undefined) => ({
  client: seen?.user_agent ?? null,
  last_seen_at: timeOrNull(seen?.last_seen_at ?? null),
})

export interface AccountFilter extends AccountQuery {
  /** One of its contacts, such as `mailto:ops@example.com`. */
  wholeContact?: string | undefined
  /** Tags of which it has one. */
  scope?: Scope
}

const Row = z.object({
  id: z.string(),
  label: z.string().nullable(),
  tags: z.array(z.string()),
  status: z.enum(ACCOUNT_STATUSES),
  thumbprint: z.string(),
  jwk: z.string(),
  contacts: z.array(z.string()),
  terms_agreed: z.boolean(),
  eab_kid: z.string().nullable(),
  user_agent: z.string().nullable(),
  last_seen_at: z.date().nullable(),
  created_at: z.date(),
  updated_at: z.date(),
})
export type ListedAccount = z.infer<typeof Row>

const columns = sql.fragment`
  a.id, a.label, a.tags, a.status, a.thumbprint, a.jwk, a.contacts, a.terms_agreed, a.created_at,
  coalesce(a.updated_at, a.created_at) AS updated_at,
  (SELECT kid FROM eab_credentials WHERE id = a.eab_credential_id) AS eab_kid,
  (SELECT user_agent FROM account_activity WHERE account_id = a.id) AS user_agent,
  (SELECT last_seen_at FROM account_activity WHERE account_id = a.id) AS last_seen_at`

const WithProfile = Row.extend({ csr_profile_id: z.string().nullable() })
export type FoundAccount = z.infer<typeof WithProfile>

export function findAccount(db: CommonQueryMethods, id: string, scope: Scope): Promise<FoundAccount | null> {
  return db.maybeOne(rowsOf(WithProfile)`
    SELECT ${columns}, (SELECT csr_profile_id FROM account_csr_profiles WHERE account_id = a.id) AS csr_profile_id
      FROM accounts a WHERE a.id = ${id} AND ${isInScope(sql.fragment`a`, scope)}`)
}

const Written = z.object({ label: z.string().nullable(), tags: z.array(z.string()) })
type Written = z.infer<typeof Written>

interface NewAccountText {
  label: string | null
  tags: readonly string[]
}

/** Locks its row until the transaction ends. Null when there is no such account in the scope. */
export function lockAccount(tx: CommonQueryMethods, id: string, scope: Scope): Promise<Written | null> {
  return tx.maybeOne(rowsOf(Written)`
    SELECT label, tags FROM accounts a WHERE id = ${id} AND ${isInScope(sql.fragment`a`, scope)} FOR UPDATE`)
}

export async function writeAccount(tx: CommonQueryMethods, id: string, { label, tags }: NewAccountText): Promise<void> {
  await tx.query(rowsOf(z.object({}))`
    UPDATE accounts SET label = ${label}, tags = ${sql.array([...tags], 'text')} WHERE id = ${id}`)
}

export async function accountExists(db: CommonQueryMethods, id: string, scope: Scope): Promise<boolean> {
  return db.exists(
    rowsOf(z.object({}))`SELECT FROM accounts a WHERE id = ${id} AND ${isInScope(sql.fragment`a`, scope)}`,
  )
}

/** In one text, which takes a third of the time: a part has no line break. */
const hasContactPart = (part: string): Fragment =>
  sql.fragment`strpos(lower(array_to_string(a.contacts, chr(10))), lower(${part})) > 0`

/** By the members of a query. Neither instant is included, and a part is looked for without LIKE, which has wildcards. */
const CONDITIONS: Conditions<AccountQuery> = {
  // Repeats the index's condition, so that the partial index serves either status.
  status: (status) => [
    sql.fragment`a.status = ${status}`,
    ...(status === 'valid' ? [] : [constantSql(`a.status ${account.isNot('valid')}`)]),
  ],
  name: (part) => sql.fragment`
    (strpos(lower(a.label), lower(${part})) > 0 OR ${hasContactPart(part)}
     OR a.eab_credential_id IS NOT NULL AND EXISTS (
       SELECT FROM eab_credentials e WHERE e.id = a.eab_credential_id AND strpos(lower(e.kid), lower(${part})) > 0))`,
  tag: (tag) => hasTagOf(sql.fragment`a`, [tag]),
  eab_only: (isOnly) => (isOnly ? sql.fragment`a.eab_credential_id IS NOT NULL` : []),
  eab_kid: (kid) => sql.fragment`a.eab_credential_id = (SELECT id FROM eab_credentials WHERE kid = ${kid})`,
  contact: hasContactPart,
  created_before: (time) => sql.fragment`a.created_at < ${instant(new Date(time))}`,
  created_after: (time) => sql.fragment`a.created_at > ${instant(new Date(time))}`,
}

/** @param after the cursor of the previous page */
export async function listAccounts(
  db: CommonQueryMethods,
  { scope, wholeContact, ...query }: AccountFilter,
  after: string | undefined,
  limit: number,
): Promise<ListPage<ListedAccount>> {
  const { tag, status, eab_kid, created_after, created_before } = query
  const id = sql.fragment`a.id`
  const isContact = wholeContact === undefined ? [] : [sql.fragment`contacts @> ${sql.array([wholeContact], 'text')}`]
  const found = [
    ...(wholeContact !== undefined && (await hasIndex(db, 'accounts_contacts')) ? isContact : []),
    ...(scope ? [hasTagOf(sql.fragment`accounts`, scope)] : []),
    ...(tag === undefined ? [] : [hasTagOf(sql.fragment`accounts`, [tag])]),
  ]
  // The planner expects thousands of accounts a contact and would read all by id.
  const accounts =
    found.length > 0 ? sql.fragment`(SELECT * FROM accounts WHERE ${allOf(found)} OFFSET 0)` : sql.fragment`accounts`
  const bounds = createdBetween(id, created_after, created_before)
  const fits: Fragment[] = [...bounds, ...allGiven(CONDITIONS, query), ...isContact]
  const walk = walkById<ListedAccount>(db, {
    table: sql.fragment`accounts a`,
    id,
    bounds,
    fits,
    read: (where, count) =>
      db.any(rowsOf(Row)`SELECT ${columns} FROM ${accounts} a WHERE ${where} ORDER BY a.id DESC LIMIT ${count}`),
  })
  const isNarrow = eab_kid !== undefined || (status !== undefined && status !== 'valid') || found.length > 0
  return readPage(isNarrow || fits.length === 0 ? unbounded(walk) : walk, after, limit)
}

/** Works as skipOfCertificates. */
export function skipOfAccounts(db: CommonQueryMethods, filter: AccountFilter): Skip | undefined {
  return skipById(db, sql.fragment`accounts a`, sql.fragment`a.id`, filter)
}

/** For each row of a page; a page of a thousand accounts then takes a quarter of a second. */
const NEWEST_LOOKED_AT = 100

const Count = z.object({ id: z.string(), current: z.int(), more: z.boolean() })
type CertificateCount = Omit<z.infer<typeof Count>, 'id'>

/**
 * Counts certificates that are neither expired nor revoked, among the certificates of the newest orders. `more`: there are
 * older orders, which were not looked at.
 */
export async function countCertificates(
  db: CommonQueryMethods,
  ids: readonly string[],
): Promise<ReadonlyMap<string, CertificateCount>> {
  if (ids.length === 0) return new Map()
  // orders_account, certificates_imported, certificates_pkey
  const rows = await db.any(rowsOf(Count)`
    SELECT i.id, n.current, n.seen > ${NEWEST_LOOKED_AT} AS more
      FROM unnest(${sql.array([...ids], 'uuid')}) AS i (id), LATERAL (
        SELECT count(*)::integer AS seen,
               count(*) FILTER (WHERE c.revoked_at IS NULL AND c.not_after > now())::integer AS current
          FROM (
            (SELECT o.certificate_id FROM orders o WHERE o.account_id = i.id ORDER BY o.id DESC LIMIT ${NEWEST_LOOKED_AT + 1})
            UNION ALL
            (SELECT m.id FROM certificates m WHERE m.account_id = i.id AND m.order_id IS NULL
              ORDER BY m.id DESC LIMIT ${NEWEST_LOOKED_AT + 1})
            LIMIT ${NEWEST_LOOKED_AT + 1}
          ) r LEFT JOIN certificates c ON c.id = r.certificate_id
      ) n`)
  return new Map(rows.map(({ id, ...count }) => [id, count]))
}
