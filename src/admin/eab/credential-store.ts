/**
 * Binding credentials as administrators see them, and their SQL (table eab_credentials; RFC 8555 §7.3.4).
 *
 * The credential's row is the lock for all that depends on it. Registration, revocation and changes
 * to its grants lock it before they read accounts.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import {
  allOf,
  behind,
  type Fragment,
  hasTagOf,
  isAccountInScope,
  isInScope,
  type ReadPage,
  readPage,
  unbounded,
  upTo,
  type Walk,
} from '../../store/list-page.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { account, authorization, order } from '../../store/status-sql.ts'
import { accountNameMember } from '../certificates/account-list.ts'
import type { CredentialQuery } from '../resources/accounts.ts'
import { allGiven, type Conditions, rowOf, timestamp } from '../schemas.ts'

export const EabCredential = z
  .strictObject({
    id: z.uuid(),
    kid: z.string(),
    label: z.string(),
    created_by: z.uuid().nullable().meta({ description: 'Null for the command line.' }),
    account_id: z.uuid().nullable().meta({ description: 'The account registered with it last.' }),
    account_name: accountNameMember(),
    used: z.boolean(),
    used_at: timestamp().nullable(),
    revoked: z.boolean(),
    created_at: timestamp(),
    profiles: z.array(z.string()).nullable().meta({ description: 'CA profiles its accounts may order; null for all.' }),
    preapproved_networks: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Networks from which allowed identifiers need no challenge.' }),
    expires_at: timestamp().nullable().meta({ description: 'No account registers with it afterwards.' }),
    max_uses: z
      .int()
      .nullable()
      .meta({ description: 'Accounts that may register with it; null leaves it to acme.eab_reusable.' }),
    uses: z.int(),
    allowed_networks: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Networks from which accounts may register with it; null for all.' }),
    tags: z.array(z.string()).meta({ description: 'Accounts that register with it get them.' }),
  })
  .meta({ id: 'EabCredential' })

/** It has no key. */
const Credential = rowOf(EabCredential.omit({ account_name: true })).extend({ label: z.string().nullable() })
export type CredentialRow = z.infer<typeof Credential>

const Id = z.object({ id: z.string() })
const withoutAccount = sql.fragment`id, kid, label, created_by, used, used_at, revoked, created_at, profiles,
  preapproved_networks::text[] AS preapproved_networks, expires_at, max_uses, uses,
  allowed_networks::text[] AS allowed_networks, tags`
const columns = sql.fragment`${withoutAccount}, account_id`

/** The account may have got other tags since. */
const columnsIn = (scope: Scope) =>
  scope === undefined
    ? columns
    : sql.fragment`${withoutAccount}, CASE WHEN ${isAccountInScope(sql.fragment`account_id`, scope)} THEN account_id END AS account_id`

export interface NewCredential {
  id: string
  kid: string
  label: string | undefined
  sealedKey: Buffer
  createdBy: string | undefined
  profiles: readonly string[] | undefined
  preapprovedNetworks: readonly string[] | undefined
  expiresAt: Date | undefined
  maxUses: number | undefined
  allowedNetworks: readonly string[] | undefined
  tags?: readonly string[]
}

/** Null when the kid is taken. */
export function insertCredential(tx: CommonQueryMethods, wanted: NewCredential): Promise<CredentialRow | null> {
  const { id, kid, label, sealedKey, createdBy, profiles, preapprovedNetworks } = wanted
  const { expiresAt, maxUses, allowedNetworks, tags = [] } = wanted
  return tx.maybeOne(rowsOf(Credential)`
    INSERT INTO eab_credentials (id, kid, label, hmac_key, created_by, profiles, preapproved_networks, expires_at,
                                 max_uses, allowed_networks, tags)
    VALUES (${id}, ${kid}, ${label ?? null}, ${sql.binary(sealedKey)}, ${createdBy ?? null}, ${textsOrNull(profiles)},
            ${textsOrNull(preapprovedNetworks)}::cidr[], ${expiresAt?.toISOString() ?? null}::timestamptz,
            ${maxUses ?? null}, ${textsOrNull(allowedNetworks)}::cidr[], ${sql.array([...tags], 'text')})
    ON CONFLICT (kid) DO NOTHING RETURNING ${columns}`)
}

export const textsOrNull = (texts: readonly string[] | undefined) =>
  texts ? sql.fragment`${sql.array([...texts], 'text')}` : sql.fragment`NULL::text[]`

const ofScope = (scope: Scope) => isInScope(sql.fragment`e`, scope)

export function findCredential(db: CommonQueryMethods, id: string, scope: Scope): Promise<CredentialRow | null> {
  return db.maybeOne(
    rowsOf(Credential)`SELECT ${columnsIn(scope)} FROM eab_credentials e WHERE id = ${id} AND ${ofScope(scope)}`,
  )
}

/** The status of a credential itself: a used one is open or not by `max_uses` and `acme.eab_reusable`. */
const HAS_STATUS: Readonly<Record<NonNullable<CredentialQuery['status']>, Fragment>> = {
  open: sql.fragment`NOT revoked AND coalesce(expires_at > now(), true)`,
  expired: sql.fragment`NOT revoked AND expires_at <= now()`,
  revoked: sql.fragment`revoked`,
}
const id = sql.fragment`id`

const CONDITIONS: Conditions<CredentialQuery> = {
  kid: (kid) => sql.fragment`kid = ${kid}`,
  name: (part) => sql.fragment`(strpos(lower(kid), lower(${part})) > 0 OR strpos(lower(label), lower(${part})) > 0)`,
  tag: (tag) => isInScope(sql.fragment`e`, [tag]),
  status: (status) => HAS_STATUS[status],
}

export interface CredentialFilter extends CredentialQuery {
  /** Tags of which it has one. */
  scope?: Scope
}

/** The newest first, along eab_credentials_pkey. */
export function pagesOfCredentials(
  db: CommonQueryMethods,
  { scope, ...query }: CredentialFilter = {},
): ReadPage<CredentialRow> {
  const { kid, name, tag, status } = query
  const fits = [ofScope(scope), ...allGiven(CONDITIONS, query)]
  const walk: Walk<CredentialRow> = {
    cursorOf: (row) => row.id,
    async windowEnd(from, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT id FROM eab_credentials WHERE ${behind(id, from)} ORDER BY id DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(from, end, limit) {
      return [
        ...(await db.any(rowsOf(Credential)`
          SELECT ${columnsIn(scope)} FROM eab_credentials e WHERE ${allOf([behind(id, from), upTo(id, end), ...fits])}
           ORDER BY id DESC LIMIT ${limit}`)),
      ]
    },
  }
  // No window ends at a credential outside the scope, so that no cursor names one.
  const isFound = (kid ?? tag ?? scope) !== undefined || (status ?? name) === undefined
  return (after, limit) => readPage(isFound ? unbounded(walk) : walk, after, limit)
}

/**
 * Before its grants change: concurrent registrations have then finished copying them.
 * @returns false when there is no such credential
 */
export async function lockCredential(tx: CommonQueryMethods, id: string): Promise<boolean> {
  return (await tx.maybeOne(rowsOf(Id)`SELECT id FROM eab_credentials WHERE id = ${id} FOR UPDATE`)) !== null
}

export async function writeTags(tx: CommonQueryMethods, id: string, tags: readonly string[]): Promise<void> {
  await tx.query(
    rowsOf(z.object({}))`UPDATE eab_credentials SET tags = ${sql.array([...tags], 'text')} WHERE id = ${id}`,
  )
}

const Bound = z.object({ eab_credential_id: z.string().nullable() })

/**
 * Locks the credential of an account, if it has one, so that its grants stay as they are.
 * @returns false when there is no such account
 */
export async function lockGrantsOfAccount(tx: CommonQueryMethods, accountId: string): Promise<boolean> {
  const found = await tx.maybeOne(rowsOf(Bound)`SELECT eab_credential_id FROM accounts WHERE id = ${accountId}`)
  if (!found) return false
  const { eab_credential_id: id } = found
  if (id !== null) await tx.maybeOne(rowsOf(Id)`SELECT id FROM eab_credentials WHERE id = ${id} FOR SHARE`)
  return true
}

/** Each number is counted up to this. */
const MOST_COUNTED = 10_000
const SHOWN_ACCOUNTS = 100

const counted = (what = '') => z.int().meta({ description: `${what}Counted up to ${MOST_COUNTED}.` })
export const EabCascade = z
  .strictObject({
    accounts: counted(),
    account_ids: z.array(z.uuid()).meta({ description: `The first ${SHOWN_ACCOUNTS}.` }),
    authorizations: counted(),
    orders: counted('Open ones. '),
    certificates: counted('They stay valid. '),
  })
  .meta({ id: 'EabCascade' })

const Cascade = rowOf(EabCascade)
type Cascade = z.infer<typeof Cascade>

/** Counts the rows that a revocation of the credential would change, and the certificates that would stay valid. */
export function previewRevocation(db: CommonQueryMethods, id: string): Promise<Cascade> {
  return db.one(rowsOf(Cascade)`
    WITH linked AS MATERIALIZED (
      SELECT id FROM accounts
       WHERE eab_credential_id = ${id} AND status ${constantSql(account.allows('revoke'))} ORDER BY id LIMIT ${MOST_COUNTED}
    )
    SELECT (SELECT count(*)::integer FROM linked) AS accounts,
           ARRAY(SELECT id::text FROM linked ORDER BY id LIMIT ${SHOWN_ACCOUNTS}) AS account_ids,
           (SELECT count(*)::integer FROM (
             SELECT FROM authorizations z JOIN linked ON z.account_id = linked.id
              WHERE z.status ${constantSql(authorization.is('valid'))} AND z.expires_at > now()
              LIMIT ${MOST_COUNTED}) z) AS authorizations,
           (SELECT count(*)::integer FROM (
             SELECT FROM orders o JOIN linked ON o.account_id = linked.id
              WHERE o.status ${constantSql(order.is('open'))} AND o.expires_at > now() LIMIT ${MOST_COUNTED}) o) AS orders,
           (SELECT count(*)::integer FROM (
             SELECT FROM orders o JOIN linked ON o.account_id = linked.id JOIN certificates c ON c.id = o.certificate_id
              WHERE c.revoked_at IS NULL AND c.not_after > now() LIMIT ${MOST_COUNTED}) c) AS certificates`)
}

export interface Revocation {
  credential: CredentialRow
  /** Every valid account registered with it, before this call. */
  linkedAccounts: string[]
  /** Accounts that this call revoked. */
  revokedAccounts: string[]
}

const Linked = z.object({ id: z.string(), revoked: z.boolean() })

/** Whether an account outside the scope is registered with it. accounts_eab_credential */
export const hasForeignAccounts = (db: CommonQueryMethods, id: string, scope: readonly string[]): Promise<boolean> =>
  db.exists(rowsOf(Id)`
    SELECT FROM accounts a WHERE a.eab_credential_id = ${id} AND NOT (${hasTagOf(sql.fragment`a`, scope)})`)

/** May be repeated. Null when there is no such credential. */
export async function revokeCredential(tx: CommonQueryMethods, id: string): Promise<Revocation | null> {
  const credential = await tx.maybeOne(rowsOf(Credential)`
    UPDATE eab_credentials SET revoked = true WHERE id = ${id} RETURNING ${columns}`)
  if (!credential) return null
  // A separate statement: only one that starts after the lock sees what a registration has just made.
  // A pending pre-authorization keeps its status, because only the account reaches it.
  //
  // Plan: accounts_eab_credential; authorizations_reusable for valid authorizations, the open orders for pending ones
  const linked = await tx.any(rowsOf(Linked)`
    WITH linked AS (
      SELECT id FROM accounts
       WHERE eab_credential_id = ${id} AND status ${constantSql(account.allows('revoke'))} FOR UPDATE
    ), revoked AS (
      UPDATE accounts a SET status = ${constantSql(account.after('revoke'))}, updated_at = now() FROM linked
       WHERE a.id = linked.id AND a.status ${constantSql(account.allows('revoke'))} RETURNING a.id
    ), concerned AS (
      SELECT z.id FROM authorizations z JOIN revoked ON z.account_id = revoked.id
       WHERE z.status ${constantSql(authorization.is('valid'))}
      UNION
      SELECT unnest(o.authorization_ids) FROM orders o JOIN revoked ON o.account_id = revoked.id
       WHERE o.status ${constantSql(order.is('open'))}
    ), deactivated AS (
      UPDATE authorizations z
         SET status = ${constantSql(authorization.after('deactivate'))}, validating_by = NULL, validating_since = NULL
        FROM concerned WHERE z.id = concerned.id AND z.status ${constantSql(authorization.allows('deactivate'))}
    )
    SELECT linked.id, revoked.id IS NOT NULL AS revoked FROM linked LEFT JOIN revoked USING (id) ORDER BY linked.id`)
  return {
    credential,
    linkedAccounts: linked.map((row) => row.id),
    revokedAccounts: linked.filter(({ revoked }) => revoked).map((row) => row.id),
  }
}
