/**
 * Names and CSR profiles that administrators grant to accounts and binding credentials.
 *
 * What a credential grants holds for every account registered with it, as long as it is granted. Its profile counts
 * where the account has none of its own. A grant to an account itself is separate; taking one back leaves the other.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { notFound, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import type { AllowedIdentifier } from '../../domain/allowlist.ts'
import type { AuditAction } from '../../domain/audit-chain.ts'
import { scopeOf } from '../../domain/permissions.ts'
import { rowsOf } from '../../store/slonik.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { accountExists } from '../certificates/account-list.ts'
import type { AdminContext } from '../context.ts'
import { lockCredential, lockGrantsOfAccount } from '../eab/credential-store.ts'
import * as profiles from '../profiles/profile-store.ts'
import {
  allowToAccount,
  allowToCredential,
  detailsOf,
  disallowToAccount,
  disallowWithApprovals,
  findIdentifierByValue,
  findOrInsert,
  type IdentifierRow,
  lockIdentifier,
  readIdentifiers,
  revokedApprovals,
} from './allowed-identifiers.ts'

/** The result for a grant to an account: `kept` when its credential still grants it. */
export const WITHDRAWALS = ['absent', 'removed', 'kept'] as const
type Withdrawal = (typeof WITHDRAWALS)[number]

export interface IdentifierOutcome {
  identifier: AllowedIdentifier
  outcome: 'allowed' | Withdrawal
}

/** A holder of grants: an account or a credential. */
interface Holder {
  noun: string
  /** Locks the holder before its grants change. @returns false when there is none */
  lock(tx: Transaction, id: string): Promise<boolean>
  /** Replaces the lock where a grant is only added. */
  exists?(tx: Transaction, id: string, actor: Actor): Promise<boolean>
  details(id: string, thing: object): Record<string, unknown>
  noteNames?(tx: Transaction, note: Note, id: string, granted: readonly AllowedIdentifier[]): Promise<void>
}

const ACCOUNT: Holder = {
  noun: 'account',
  lock: lockGrantsOfAccount,
  exists: (tx, id, actor) => accountExists(tx, id, scopeOf(actor)),
  details: (id, thing) => ({ ...thing, account_id: id }),
}
const CREDENTIAL: Holder = {
  noun: 'credential',
  lock: lockCredential,
  details: (id, thing) => ({ eab_id: id, ...thing }),
  noteNames: notePreApproval,
}

/** A name or a profile that is granted; `hold` keeps it from being deleted until the transaction ends. */
interface Thing<Row> {
  noun: string
  hold(tx: Transaction, id: string): Promise<Row | null>
  details(row: Row): object
  namesOf(row: Row): AllowedIdentifier[]
}

const NAME: Thing<IdentifierRow> = {
  noun: 'allowed identifier',
  hold: lockIdentifier,
  details: detailsOf,
  namesOf: ({ identifier_type: type, identifier_value: value }) => [{ type, value }],
}
const PROFILE: Thing<profiles.ProfileRow> = {
  noun: 'CSR profile',
  hold: profiles.holdProfile,
  details: profiles.profileDetails,
  namesOf: () => [],
}

type Which = [tx: Transaction, thingId: string, holderId: string]
type Give = (...which: [...Which, by: string | undefined]) => Promise<boolean>
type Take = (...which: Which) => Promise<[Withdrawal, object?]>

/** @param given action in the audit log; so is `taken` */
function grantOf<Row extends { id: string }>(
  holder: Holder,
  thing: Thing<Row>,
  [given, assign]: [AuditAction, Give],
  [taken, unassign]: [AuditAction, Take],
) {
  const lock = async (tx: Transaction, id: string) => {
    requireFound(await holder.lock(tx, id), holder.noun)
  }
  const hold = async (tx: Transaction, id: string) => requireFound(await thing.hold(tx, id), thing.noun)
  const add = async (tx: Transaction, note: Note, actor: Actor, row: Row, id: string) => {
    if (await assign(tx, row.id, id, actor.userId)) note(given, holder.details(id, thing.details(row)))
  }
  const withdraw = async (tx: Transaction, note: Note, row: Row, id: string) => {
    const [outcome, details] = await unassign(tx, row.id, id)
    if (outcome !== 'absent') note(taken, { ...holder.details(id, thing.details(row)), ...details })
    return outcome
  }
  const give = (audit: AuditLog, actor: Actor, thingId: string, id: string) =>
    audit.transaction(actor, async (tx, note) => {
      if (!holder.exists) await lock(tx, id)
      const row = await hold(tx, thingId)
      if (holder.exists && !(await holder.exists(tx, id, actor))) throw notFound(holder.noun)
      await add(tx, note, actor, row, id)
      await holder.noteNames?.(tx, note, id, thing.namesOf(row))
    })
  const take = (audit: AuditLog, actor: Actor, thingId: string, id: string) =>
    audit.transaction(actor, async (tx, note) => {
      await lock(tx, id)
      await withdraw(tx, note, await hold(tx, thingId), id)
    })
  return { holder, given, taken, lock, hold, add, withdraw, give, take }
}
export type Grant = Pick<ReturnType<typeof grantOf>, 'given' | 'taken' | 'give' | 'take'>

const taking =
  (unassign: (...which: Which) => Promise<boolean>): Take =>
  async (...which) => [(await unassign(...which)) ? 'removed' : 'absent']

export const NAME_OF_ACCOUNT = grantOf(
  ACCOUNT,
  NAME,
  ['identifier.add_account', allowToAccount],
  ['identifier.remove_account', async (...which) => [await disallowToAccount(...which)]],
)
const takeNameFromCredential: Take = async (...which) => {
  const revoked = await disallowWithApprovals(...which)
  return revoked === undefined ? ['absent'] : ['removed', revokedApprovals(revoked)]
}
export const NAME_OF_CREDENTIAL = grantOf(
  CREDENTIAL,
  NAME,
  ['eab.add_identifier', allowToCredential],
  ['eab.remove_identifier', takeNameFromCredential],
)
export const PROFILE_OF_ACCOUNT = grantOf(
  ACCOUNT,
  PROFILE,
  ['csr_profile.assign', profiles.assignToAccount],
  ['csr_profile.unassign', taking(profiles.unassignFromAccount)],
)
export const PROFILE_OF_CREDENTIAL = grantOf(
  CREDENTIAL,
  PROFILE,
  ['eab.assign_csr_profile', profiles.assignToCredential],
  ['eab.unassign_csr_profile', taking(profiles.unassignFromCredential)],
)

/**
 * Grants names, making what is missing, and takes back: all in one commit.
 * @param wanted as typed
 */
export function changeNames(
  grant: typeof NAME_OF_ACCOUNT,
  audit: AuditLog,
  actor: Actor,
  id: string,
  wanted: { allow?: readonly string[] | undefined; disallow?: readonly string[] | undefined },
): Promise<IdentifierOutcome[]> {
  const allowed = readIdentifiers('allow', wanted.allow ?? [])
  const disallowed = readIdentifiers('disallow', wanted.disallow ?? [])
  return audit.transaction(actor, async (tx, note) => {
    await grant.lock(tx, id)
    await grant.holder.noteNames?.(tx, note, id, allowed)
    await grantNames(tx, note, actor, id, allowed, grant)
    const outcomes = allowed.map((identifier): IdentifierOutcome => ({ identifier, outcome: 'allowed' }))
    for (const identifier of disallowed) {
      const row = await findIdentifierByValue(tx, identifier)
      outcomes.push({ identifier, outcome: row ? await grant.withdraw(tx, note, row, id) : 'absent' })
    }
    return outcomes
  })
}

/** Grants to a holder that is locked, or was made in this transaction. */
export async function grantNames(
  tx: Transaction,
  note: Note,
  actor: Actor,
  id: string,
  identifiers: readonly AllowedIdentifier[],
  grant = NAME_OF_CREDENTIAL,
): Promise<void> {
  for (const identifier of identifiers)
    await grant.add(tx, note, actor, await findOrInsert(tx, note, actor, identifier), id)
}

/** A credential whose networks need no challenge: a name that it grants is certified without validation. */
const PreApproving = z.object({ kid: z.string(), networks: z.array(z.string()).nullable() })

const findPreApproving = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(rowsOf(PreApproving)`
    SELECT kid, preapproved_networks::text[] AS networks FROM eab_credentials WHERE id = ${id}`)

/** None where each name needs its challenge. */
export const networksWithoutChallenge = async (db: CommonQueryMethods, id: string): Promise<readonly string[]> =>
  (await findPreApproving(db, id))?.networks ?? []

const preApproves = async ({ params }: { params: { cred_id: string } }, { db }: Pick<AdminContext, 'db'>) =>
  (await networksWithoutChallenge(db, params.cred_id)).length > 0

/** For endpoints that grant a name to a credential. */
export const IN_PERSON = { needsSession: preApproves, recentSignIn: preApproves } as const

/** All administrators hear of this entry. */
export async function notePreApproval(
  tx: CommonQueryMethods,
  note: Note,
  id: string,
  names: readonly AllowedIdentifier[],
): Promise<void> {
  const found = names.length > 0 ? await findPreApproving(tx, id) : null
  if (!found?.networks) return
  const { kid, networks } = found
  note('eab.pre_approve', { eab_id: id, kid, names: names.map(({ value }) => value), networks })
}
