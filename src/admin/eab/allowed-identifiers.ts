/** Identifiers that administrators allow: made, read and deleted. */

import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type AllowedIdentifier, normalizeAllowedIdentifier, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { notRight } from '../admin-errors.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import {
  deleteIdentifier,
  disallowToCredential,
  findIdentifierByValue,
  type IdentifierRow,
  insertIdentifier,
  lockGrantingCredentials,
  revokeWithdrawnApprovals,
} from './identifier-store.ts'

/** @param wanted as typed */
export function createIdentifier(audit: AuditLog, actor: Actor, wanted: AllowedIdentifier): Promise<IdentifierRow> {
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
    const removed = await deleteWithApprovals(tx, id)
    if (!removed) throw notFound('allowed identifier')
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

async function insertNew(tx: Transaction, note: Note, actor: Actor, identifier: AllowedIdentifier) {
  const wanted = { id: uuidv7(Date.now()), ...identifier, createdBy: actor.userId }
  const made = await insertIdentifier(tx, wanted)
  if (made) note('identifier.create', detailsOf(made))
  return made
}

export async function findOrInsert(tx: Transaction, note: Note, actor: Actor, identifier: AllowedIdentifier) {
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
export function readIdentifiers(field: string, typed: readonly string[]): AllowedIdentifier[] {
  const parsed = typed.map((text) => ({ text, ...parseAllowedIdentifier(text) }))
  const fields = parsed.flatMap((one) =>
    one.ok ? [] : [{ field, message: `${JSON.stringify(one.text)} ${one.reason}` }],
  )
  if (fields.length > 0) throw notRight('body', fields)
  const identifiers = parsed.flatMap((one) => (one.ok ? [one.identifier] : []))
  return [...new Map(identifiers.map((identifier) => [identifier.value, identifier])).values()]
}
