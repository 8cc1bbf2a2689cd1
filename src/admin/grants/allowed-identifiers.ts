/**
 * Identifiers that administrators allow to accounts and binding credentials: made, read and deleted, and their SQL.
 *
 * account_allowed_identifiers is what accounts may request, as the ACME side reads it. A row without
 * eab_credential_id was allowed to the account itself; the others are copies of what its credential
 * grants. A grant to the account itself hides the copy, and gives way to it when taken back.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import {
  type AllowedIdentifier as AllowedName,
  normalizeAllowedIdentifier,
  parseAllowedIdentifier,
} from '../../domain/allowlist.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { ALL_ROWS, pageById, type ReadPage } from '../../store/list-page.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { authorization } from '../../store/status-sql.ts'
import { notRight } from '../admin-errors.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { accountNameMember } from '../certificates/account-list.ts'
import { rowOf, timestamp } from '../schemas.ts'

/** @param wanted as typed */
export function createIdentifier(audit: AuditLog, actor: Actor, wanted: AllowedName): Promise<IdentifierRow> {
  const normal = normalizeAllowedIdentifier(wanted.type, wanted.value)
  if (!normal.ok) throw notRight('body', [{ field: 'value', message: normal.reason }])
  return audit.transaction(actor, async (tx, note) => {
    const identifier = { type: wanted.type, value: normal.value }
    const made = await insertNew(tx, note, actor, identifier)
    if (!made) throw new AdminError('conflict', `the ${wanted.type} identifier ${normal.value} is there already`)
    return made
  })
}

export function removeIdentifier(audit: AuditLog, actor: Actor, id: string): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    const removed = requireFound(await deleteWithApprovals(tx, id), 'allowed identifier')
    note('identifier.delete', { ...detailsOf(removed.gone), ...revokedApprovals(removed.revoked) })
  })
}

/** Deletes it with every grant of it, and what credentials have approved by them. @returns undefined when there is none */
export async function deleteWithApprovals(tx: Transaction, id: string) {
  const granting = await lockGrantingCredentials(tx, id)
  const gone = await deleteIdentifier(tx, id)
  return gone ? { gone, revoked: await revokeWithdrawnApprovals(tx, granting) } : undefined
}

/** To a credential that is locked. @returns how many approvals it has taken back; undefined when it was not granted */
export async function disallowWithApprovals(tx: Transaction, identifierId: string, credentialId: string) {
  const isGone = await disallowToCredential(tx, identifierId, credentialId)
  return isGone ? revokeWithdrawnApprovals(tx, [credentialId]) : undefined
}

async function insertNew(tx: Transaction, note: Note, actor: Actor, identifier: AllowedName) {
  const wanted = { id: uuidv7(Date.now()), ...identifier, createdBy: actor.userId }
  const made = await insertIdentifier(tx, wanted)
  if (made) note('identifier.create', detailsOf(made))
  return made
}

export async function findOrInsert(tx: Transaction, note: Note, actor: Actor, identifier: AllowedName) {
  const row =
    (await findIdentifierByValue(tx, identifier)) ??
    (await insertNew(tx, note, actor, identifier)) ??
    (await findIdentifierByValue(tx, identifier))
  if (row) return row
  throw new AdminError('conflict', `${identifier.value} is being changed by somebody else; try again`)
}

export const detailsOf = ({ id, identifier_type, identifier_value }: IdentifierRow) => ({
  identifier_id: id,
  identifier_type,
  identifier_value,
})

export const revokedApprovals = (count: number) => (count > 0 ? { revoked_authorizations: count } : {})

/** In normal form, without duplicates. @throws AdminError that names each wrong one */
export function readIdentifiers(field: string, typed: readonly string[]): AllowedName[] {
  const parsed = typed.map((text) => ({ text, ...parseAllowedIdentifier(text) }))
  const fields = parsed.flatMap((one) =>
    one.ok ? [] : [{ field, message: `${JSON.stringify(one.text)} ${one.reason}` }],
  )
  if (fields.length > 0) throw notRight('body', fields)
  const identifiers = parsed.flatMap((one) => (one.ok ? [one.identifier] : []))
  return [...new Map(identifiers.map((identifier) => [identifier.value, identifier])).values()]
}

/** The list of a credential shows this much. */
export const PlainIdentifier = z
  .strictObject({
    id: z.uuid(),
    identifier_type: z.enum(['dns', 'ip']),
    identifier_value: z.string(),
    created_by: z.uuid().nullable().meta({ description: 'Null for the command line.' }),
    created_at: timestamp(),
  })
  .meta({ id: 'PlainIdentifier' })

export const AllowedIdentifier = z
  .strictObject({
    ...PlainIdentifier.shape,
    credential_kids: z.array(z.string()).meta({ description: 'Credentials that grant it; the first 100.' }),
    account_ids: z
      .array(z.uuid())
      .meta({ description: 'Accounts that may request it, themselves or through their credential; the first.' }),
    account_names: z.array(accountNameMember()).meta({ description: 'In the order of their ids.' }),
    more_accounts: z.boolean().meta({ description: 'There are more: a list names 100, this resource 10,000.' }),
  })
  .meta({ id: 'AllowedIdentifier' })

const Identifier = rowOf(PlainIdentifier)
export type IdentifierRow = z.infer<typeof Identifier>

/** Through which credential; null for what is allowed to the account itself. */
const OfAccount = Identifier.extend({ eab_credential_id: z.string().nullable() })
type IdentifierOfAccount = z.infer<typeof OfAccount>

const Id = z.object({ identifier_id: z.string() })
const columns = sql.fragment`n.id, n.identifier_type, n.identifier_value, n.created_by, n.created_at`

const WithSome = rowOf(AllowedIdentifier.omit({ account_names: true }))
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
export function pagesOfIdentifiers(db: CommonQueryMethods, one?: AllowedName): ReadPage<IdentifierWithSome> {
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

interface NewIdentifier extends AllowedName {
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
export function findIdentifierByValue(tx: CommonQueryMethods, { type, value }: AllowedName) {
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
async function lockGrantingCredentials(tx: CommonQueryMethods, identifierId: string): Promise<string[]> {
  const rows = await tx.any(rowsOf(Granting)`
    SELECT e.eab_credential_id FROM eab_allowed_identifiers e JOIN eab_credentials c ON c.id = e.eab_credential_id
     WHERE e.identifier_id = ${identifierId} ORDER BY c.id FOR UPDATE OF c`)
  return rows.map((row) => row.eab_credential_id)
}

/**
 * Authorizations that these credentials have approved without a challenge and would not approve
 * now: valid → revoked, so that no open order is finalized by them. The credentials are locked.
 */
async function revokeWithdrawnApprovals(tx: CommonQueryMethods, credentialIds: readonly string[]) {
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
function deleteIdentifier(tx: CommonQueryMethods, id: string): Promise<IdentifierRow | null> {
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
async function disallowToCredential(tx: CommonQueryMethods, identifierId: string, credentialId: string) {
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
