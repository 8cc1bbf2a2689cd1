/**
 * Identifiers that administrators allow to accounts and to binding credentials.
 *
 * What a credential grants holds for every account registered with it, as long as it is granted. A
 * grant to an account itself is separate; taking one back leaves the other.
 */

import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type AllowedIdentifier, normalizeAllowedIdentifier, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { scopeOf } from '../../domain/permissions.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { accountExists } from '../../store/account-list.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { lockCredential, lockGrantsOfAccount } from './credential-store.ts'
import {
  allowToAccount,
  allowToCredential,
  deleteIdentifier,
  disallowToAccount,
  disallowToCredential,
  findIdentifierByValue,
  type IdentifierRow,
  insertIdentifier,
  lockGrantingCredentials,
  lockIdentifier,
  revokeWithdrawnApprovals,
} from './identifier-store.ts'
import { notePreApproval } from './pre-approval.ts'

/** The result for a grant to an account: `kept` when its credential still grants it. */
export const WITHDRAWALS = ['absent', 'removed', 'kept'] as const
type Withdrawal = (typeof WITHDRAWALS)[number]

/** As typed. */
interface WantedChange {
  allow?: readonly string[] | undefined
  disallow?: readonly string[] | undefined
}

export interface IdentifierOutcome {
  identifier: AllowedIdentifier
  outcome: 'allowed' | Withdrawal
}

/** To the account or credential that is locked. */
interface Grants {
  allow(row: IdentifierRow): Promise<void>
  disallow(row: IdentifierRow): Promise<Withdrawal>
}

/** @param wanted as typed */
export function createIdentifier(audit: AuditLog, actor: Actor, wanted: AllowedIdentifier): Promise<IdentifierRow> {
  const normal = normalizeAllowedIdentifier(wanted.type, wanted.value)
  if (!normal.ok) throw wrongValue(normal.reason)
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

/** With every grant of it, and what credentials have approved by them. @returns undefined when there is none */
export async function deleteWithApprovals(tx: Transaction, id: string) {
  const granting = await lockGrantingCredentials(tx, id)
  const gone = await deleteIdentifier(tx, id)
  return gone ? { gone, revoked: await revokeWithdrawnApprovals(tx, granting) } : undefined
}

export function giveNameToAccount(
  audit: AuditLog,
  actor: Actor,
  identifierId: string,
  accountId: string,
): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    const identifier = await requireIdentifier(tx, identifierId)
    if (!(await accountExists(tx, accountId, scopeOf(actor)))) throw notFound('account')
    if (await allowToAccount(tx, identifierId, accountId))
      note('identifier.add_account', { ...detailsOf(identifier), account_id: accountId })
  })
}

export function takeNameFromAccount(
  audit: AuditLog,
  actor: Actor,
  identifierId: string,
  accountId: string,
): Promise<Withdrawal> {
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockGrantsOfAccount(tx, accountId))) throw notFound('account')
    return withdraw(tx, note, await requireIdentifier(tx, identifierId), accountId)
  })
}

export function giveNameToCredential(
  audit: AuditLog,
  actor: Actor,
  identifierId: string,
  credentialId: string,
): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
    const identifier = await requireIdentifier(tx, identifierId)
    await grant(tx, note, identifier, credentialId)
    await notePreApproval(tx, note, credentialId, [
      { type: identifier.identifier_type, value: identifier.identifier_value },
    ])
  })
}

export function takeNameFromCredential(
  audit: AuditLog,
  actor: Actor,
  identifierId: string,
  credentialId: string,
): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
    await ungrant(tx, note, await requireIdentifier(tx, identifierId), credentialId)
  })
}

/** Allows to an account itself, making what is missing, and takes back: all in one commit. */
export function changeOfAccount(
  audit: AuditLog,
  actor: Actor,
  accountId: string,
  wanted: WantedChange,
): Promise<IdentifierOutcome[]> {
  return change(audit, actor, wanted, async (tx, note) => {
    if (!(await lockGrantsOfAccount(tx, accountId))) throw notFound('account')
    return {
      async allow(row) {
        if (await allowToAccount(tx, row.id, accountId))
          note('identifier.add_account', { ...detailsOf(row), account_id: accountId })
      },
      disallow: (row) => withdraw(tx, note, row, accountId),
    }
  })
}

/** As changeOfAccount, for a credential. */
export function changeOfCredential(
  audit: AuditLog,
  actor: Actor,
  credentialId: string,
  wanted: WantedChange,
): Promise<IdentifierOutcome[]> {
  return change(audit, actor, wanted, async (tx, note) => {
    if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
    await notePreApproval(tx, note, credentialId, readIdentifiers('allow', wanted.allow ?? []))
    return {
      allow: (row) => grant(tx, note, row, credentialId),
      disallow: async (row) => ((await ungrant(tx, note, row, credentialId)) ? 'removed' : 'absent'),
    }
  })
}

function change(
  audit: AuditLog,
  actor: Actor,
  wanted: WantedChange,
  begin: (tx: Transaction, note: Note) => Promise<Grants>,
): Promise<IdentifierOutcome[]> {
  const allowed = readIdentifiers('allow', wanted.allow ?? [])
  const disallowed = readIdentifiers('disallow', wanted.disallow ?? [])
  return audit.transaction(actor, async (tx, note) => {
    const grants = await begin(tx, note)
    const outcomes: IdentifierOutcome[] = []
    for (const identifier of allowed) {
      await grants.allow(await findOrInsert(tx, note, actor, identifier))
      outcomes.push({ identifier, outcome: 'allowed' })
    }
    for (const identifier of disallowed) {
      const row = await findIdentifierByValue(tx, identifier)
      outcomes.push({ identifier, outcome: row ? await grants.disallow(row) : 'absent' })
    }
    return outcomes
  })
}

async function requireIdentifier(tx: Transaction, id: string): Promise<IdentifierRow> {
  return (await lockIdentifier(tx, id)) ?? Promise.reject(notFound('allowed identifier'))
}

/** For a credential that is locked or was made in this transaction. */
export async function grantNames(
  tx: Transaction,
  note: Note,
  actor: Actor,
  credentialId: string,
  identifiers: readonly AllowedIdentifier[],
): Promise<void> {
  for (const identifier of identifiers)
    await grant(tx, note, await findOrInsert(tx, note, actor, identifier), credentialId)
}

async function grant(tx: Transaction, note: Note, identifier: IdentifierRow, credentialId: string): Promise<void> {
  if (await allowToCredential(tx, identifier.id, credentialId))
    note('eab.add_identifier', { eab_id: credentialId, ...detailsOf(identifier) })
}

async function ungrant(tx: Transaction, note: Note, identifier: IdentifierRow, credentialId: string) {
  const revoked = await disallowWithApprovals(tx, identifier.id, credentialId)
  if (revoked === undefined) return false
  note('eab.remove_identifier', { eab_id: credentialId, ...detailsOf(identifier), ...revokedApprovals(revoked) })
  return true
}

/** To a credential that is locked. @returns how many approvals it has taken back; undefined when it was not granted */
export async function disallowWithApprovals(tx: Transaction, identifierId: string, credentialId: string) {
  const isGone = await disallowToCredential(tx, identifierId, credentialId)
  return isGone ? revokeWithdrawnApprovals(tx, [credentialId]) : undefined
}

async function withdraw(tx: Transaction, note: Note, identifier: IdentifierRow, accountId: string) {
  const outcome = await disallowToAccount(tx, identifier.id, accountId)
  if (outcome !== 'absent') note('identifier.remove_account', { ...detailsOf(identifier), account_id: accountId })
  return outcome
}

async function insertNew(tx: Transaction, note: Note, actor: Actor, identifier: AllowedIdentifier) {
  const wanted = { id: uuidv7(Date.now()), ...identifier, createdBy: actor.userId }
  const made = await insertIdentifier(tx, wanted)
  if (made) note('identifier.create', detailsOf(made))
  return made
}

async function findOrInsert(tx: Transaction, note: Note, actor: Actor, identifier: AllowedIdentifier) {
  const row =
    (await findIdentifierByValue(tx, identifier)) ??
    (await insertNew(tx, note, actor, identifier)) ??
    (await findIdentifierByValue(tx, identifier))
  if (row) return row
  throw new AdminError('conflict', `${identifier.value} is being changed by somebody else; try again`)
}

const detailsOf = ({ id, identifier_type, identifier_value }: IdentifierRow) => ({
  identifier_id: id,
  identifier_type,
  identifier_value,
})

const revokedApprovals = (count: number) => (count > 0 ? { revoked_authorizations: count } : {})

/** In normal form, without duplicates. @throws AdminError that names each wrong one */
export function readIdentifiers(field: string, typed: readonly string[]): AllowedIdentifier[] {
  const parsed = typed.map((text) => ({ text, ...parseAllowedIdentifier(text) }))
  const fields = parsed.flatMap((one) =>
    one.ok ? [] : [{ field, message: `${JSON.stringify(one.text)} ${one.reason}` }],
  )
  if (fields.length > 0)
    throw new AdminError(
      'invalid_request',
      `the body is not right: ${fields.map(({ message }) => `'${field}' ${message}`).join('; ')}`,
      { fields },
    )
  const identifiers = parsed.flatMap((one) => (one.ok ? [one.identifier] : []))
  return [...new Map(identifiers.map((identifier) => [identifier.value, identifier])).values()]
}

const wrongValue = (reason: string) =>
  new AdminError('invalid_request', `the body is not right: 'value' ${reason}`, {
    fields: [{ field: 'value', message: reason }],
  })
