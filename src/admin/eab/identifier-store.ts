/**
 * SQL of the identifiers that administrators allow to accounts and binding credentials.
 *
 * account_allowed_identifiers is what accounts may request, as the ACME side reads it. A row without
 * eab_credential_id was allowed to the account itself; the others are copies of what its credential
 * grants. A grant to the account itself hides the copy, and gives way to it when taken back.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { AllowedIdentifier } from '../../domain/allowlist.ts'
import { ALL_ROWS, pageById, type ReadPage } from '../../store/list-page.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { authorization } from '../../store/status-sql.ts'

const Identifier = z.object({
  id: z.string(),
  identifier_type: z.enum(['dns', 'ip']),
  identifier_value: z.string(),
  created_by: z.string().nullable(),
  created_at: z.date(),
})
export type IdentifierRow = z.infer<typeof Identifier>

/** Through which credential; null for what is allowed to the account itself. */
const OfAccount = Identifier.extend({ eab_credential_id: z.string().nullable() })
export type IdentifierOfAccount = z.infer<typeof OfAccount>

const Id = z.object({ identifier_id: z.string() })
const columns = sql.fragment`n.id, n.identifier_type, n.identifier_value, n.created_by, n.created_at`

/** It comes with some of the credentials that grant it and of the accounts that may request it. */
const WithSome = Identifier.extend({
  credential_kids: z.array(z.string()),
  account_ids: z.array(z.string()),
  more_accounts: z.boolean(),
})
export type IdentifierWithSome = z.infer<typeof WithSome>

/** A network of credentials gives an identifier to any number of accounts. */
const MOST_LISTED_IDS = 100
const MOST_IDS = 10_000

// eab_allowed_identifiers_identifier, account_allowed_identifiers_identifier
const some = (most: number) => sql.fragment`
  ARRAY(SELECT c.kid FROM eab_allowed_identifiers e JOIN eab_credentials c ON c.id = e.eab_credential_id
         WHERE e.identifier_id = n.id ORDER BY c.kid LIMIT ${MOST_LISTED_IDS}) AS credential_kids,
  ARRAY(SELECT a.account_id::text FROM account_allowed_identifiers a WHERE a.identifier_id = n.id
         ORDER BY a.account_id LIMIT ${most}) AS account_ids,
  EXISTS (SELECT FROM account_allowed_identifiers a WHERE a.identifier_id = n.id OFFSET ${most}) AS more_accounts`

/** @param one in normal form; undefined for all */
export function pagesOfIdentifiers(db: CommonQueryMethods, one?: AllowedIdentifier): ReadPage<IdentifierWithSome> {
  const named = one ? sql.fragment`n.identifier_type = ${one.type} AND n.identifier_value = ${one.value}` : ALL_ROWS
  return pageById(sql.fragment`n.id`, (condition, limit) =>
    db.any(rowsOf(WithSome)`
      SELECT ${columns}, ${some(MOST_LISTED_IDS)} FROM allowed_identifiers n WHERE ${condition} AND ${named}
       ORDER BY n.id DESC LIMIT ${limit}`),
  )
}

export function findIdentifier(db: CommonQueryMethods, id: string): Promise<IdentifierWithSome | null> {
  return db.maybeOne(rowsOf(WithSome)`
    SELECT ${columns}, ${some(MOST_IDS)} FROM allowed_identifiers n WHERE n.id = ${id}`)
}

export function pagesOfAccount(db: CommonQueryMethods, accountId: string): ReadPage<IdentifierOfAccount> {
  return pageById(sql.fragment`n.id`, (condition, limit) =>
    db.any(rowsOf(OfAccount)`
      SELECT ${columns}, a.eab_credential_id FROM account_allowed_identifiers a JOIN allowed_identifiers n ON n.id = a.identifier_id
       WHERE a.account_id = ${accountId} AND ${condition} ORDER BY n.id DESC LIMIT ${limit}`),
  )
}

export function pagesOfCredential(db: CommonQueryMethods, credentialId: string): ReadPage<IdentifierRow> {
  return pageById(sql.fragment`n.id`, (condition, limit) =>
    db.any(rowsOf(Identifier)`
      SELECT ${columns} FROM eab_allowed_identifiers e JOIN allowed_identifiers n ON n.id = e.identifier_id
       WHERE e.eab_credential_id = ${credentialId} AND ${condition} ORDER BY n.id DESC LIMIT ${limit}`),
  )
}

interface NewIdentifier extends AllowedIdentifier {
  id: string
  createdBy: string | undefined
}

/** Null when there is one of this type and value. */
export function insertIdentifier(tx: CommonQueryMethods, wanted: NewIdentifier): Promise<IdentifierRow | null> {
  const { id, type, value, createdBy } = wanted
  return tx.maybeOne(rowsOf(Identifier)`
    INSERT INTO allowed_identifiers AS n (id, identifier_type, identifier_value, created_by)
    VALUES (${id}, ${type}, ${value}, ${createdBy ?? null})
    ON CONFLICT (identifier_type, identifier_value) DO NOTHING RETURNING ${columns}`)
}

/** Locked against deletion until the transaction ends. */
export function findIdentifierByValue(tx: CommonQueryMethods, { type, value }: AllowedIdentifier) {
  return tx.maybeOne(rowsOf(Identifier)`
    SELECT ${columns} FROM allowed_identifiers n
     WHERE n.identifier_type = ${type} AND n.identifier_value = ${value} FOR KEY SHARE`)
}

/** Keeps the identifier from being deleted until the transaction ends. */
export function lockIdentifier(tx: CommonQueryMethods, id: string): Promise<IdentifierRow | null> {
  return tx.maybeOne(rowsOf(Identifier)`SELECT ${columns} FROM allowed_identifiers n WHERE n.id = ${id} FOR KEY SHARE`)
}

const Granting = z.object({ eab_credential_id: z.string() })

/** Locks the credentials that grant the identifier, so that an approval by it ends before or sees the deletion. */
export async function lockGrantingCredentials(tx: CommonQueryMethods, identifierId: string): Promise<string[]> {
  const rows = await tx.any(rowsOf(Granting)`
    SELECT e.eab_credential_id FROM eab_allowed_identifiers e JOIN eab_credentials c ON c.id = e.eab_credential_id
     WHERE e.identifier_id = ${identifierId} ORDER BY c.id FOR UPDATE OF c`)
  return rows.map((row) => row.eab_credential_id)
}

/**
 * Authorizations that these credentials have approved without a challenge and would not approve
 * now: valid → revoked, so that no open order is finalized by them. The credentials are locked.
 */
export async function revokeWithdrawnApprovals(tx: CommonQueryMethods, credentialIds: readonly string[]) {
  // accounts_eab_credential, then authorizations_reusable by account
  const { rowCount } = await tx.query(rowsOf(Id)`
    UPDATE authorizations z SET status = ${constantSql(authorization.after('revoke'))}
      FROM accounts a
     WHERE a.eab_credential_id = ANY (${sql.array([...credentialIds], 'uuid')}) AND z.account_id = a.id
       AND z.status ${constantSql(authorization.is('valid'))} AND z.approved AND z.evidence ->> 'type' = 'pre-approval'
       AND NOT credential_allows(a.eab_credential_id, z.identifier_type, z.identifier_value, z.wildcard)`)
  return rowCount
}

/** Deletes it with every grant of it. */
export function deleteIdentifier(tx: CommonQueryMethods, id: string): Promise<IdentifierRow | null> {
  return tx.maybeOne(rowsOf(Identifier)`DELETE FROM allowed_identifiers n WHERE n.id = ${id} RETURNING ${columns}`)
}

/** Whether something changed: it was not allowed to the account itself before. */
export async function allowToAccount(tx: CommonQueryMethods, identifierId: string, accountId: string) {
  const changed = await tx.maybeOne(rowsOf(Id)`
    INSERT INTO account_allowed_identifiers AS a (account_id, identifier_id) VALUES (${accountId}, ${identifierId})
    ON CONFLICT (account_id, identifier_id) DO UPDATE SET eab_credential_id = NULL WHERE a.eab_credential_id IS NOT NULL
    RETURNING a.identifier_id`)
  return changed !== null
}

/**
 * Takes back what was allowed to the account itself; its credential's grants are locked.
 * @returns `kept` when its credential still grants it
 */
export async function disallowToAccount(
  tx: CommonQueryMethods,
  identifierId: string,
  accountId: string,
): Promise<'absent' | 'removed' | 'kept'> {
  const kept = await tx.maybeOne(rowsOf(Id)`
    UPDATE account_allowed_identifiers a SET eab_credential_id = e.eab_credential_id
      FROM accounts c JOIN eab_allowed_identifiers e USING (eab_credential_id)
     WHERE a.account_id = ${accountId} AND a.identifier_id = ${identifierId} AND a.eab_credential_id IS NULL
       AND c.id = a.account_id AND e.identifier_id = a.identifier_id
    RETURNING a.identifier_id`)
  if (kept) return 'kept'
  const removed = await tx.maybeOne(rowsOf(Id)`
    DELETE FROM account_allowed_identifiers
     WHERE account_id = ${accountId} AND identifier_id = ${identifierId} AND eab_credential_id IS NULL
    RETURNING identifier_id`)
  return removed ? 'removed' : 'absent'
}

/** To the credential and every account registered with it. The credential is locked. */
export async function allowToCredential(tx: CommonQueryMethods, identifierId: string, credentialId: string) {
  const added = await tx.maybeOne(rowsOf(Id)`
    INSERT INTO eab_allowed_identifiers (eab_credential_id, identifier_id) VALUES (${credentialId}, ${identifierId})
    ON CONFLICT DO NOTHING RETURNING identifier_id`)
  if (!added) return false
  await tx.query(rowsOf(Id)`
    INSERT INTO account_allowed_identifiers (account_id, identifier_id, eab_credential_id)
    SELECT id, ${identifierId}, ${credentialId} FROM accounts WHERE eab_credential_id = ${credentialId}
    ON CONFLICT DO NOTHING`)
  return true
}

/** From the credential and its accounts; what was allowed to an account itself stays. */
export async function disallowToCredential(tx: CommonQueryMethods, identifierId: string, credentialId: string) {
  const removed = await tx.maybeOne(rowsOf(Id)`
    DELETE FROM eab_allowed_identifiers WHERE eab_credential_id = ${credentialId} AND identifier_id = ${identifierId}
    RETURNING identifier_id`)
  if (!removed) return false
  await tx.query(rowsOf(Id)`
    DELETE FROM account_allowed_identifiers a USING accounts c
     WHERE c.eab_credential_id = ${credentialId} AND a.account_id = c.id
       AND a.identifier_id = ${identifierId} AND a.eab_credential_id = ${credentialId}`)
  return true
}
