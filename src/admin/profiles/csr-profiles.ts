/**
 * CSR profiles: their data, whom they are assigned to, and dry runs.
 *
 * A profile of the account itself wins over that of its credential; taking one back leaves the other.
 */

import { type DatabasePool, UniqueIntegrityConstraintViolationError } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { certifiedNames } from '../../domain/csr-check.ts'
import {
  asksForHistory,
  type CsrProfile,
  CsrProfileError,
  csrProfileViolations,
  parseCsrProfile,
} from '../../domain/csr-profile.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import type { Csr } from '../../shared/pki/csr.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { accountExists } from '../../store/account-list.ts'
import { findCredential, lockCredential, lockGrantsOfAccount } from '../../store/credential-store.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { type PageOfList, type PageRequest, readPageOf } from '../list-pages.ts'
import type { HistoryIndexes } from './history-indexes.ts'
import {
  assignToAccount,
  assignToCredential,
  deleteProfile,
  findProfile,
  findProfileOfAccount,
  findProfileOfCredential,
  findProfileWithAccounts,
  holdProfile,
  insertProfile,
  lockProfile,
  type ProfileOfAccount,
  type ProfileRow,
  type ProfileWithAccounts,
  pagesOfProfiles,
  readHistory,
  replaceProfile,
  unassignFromAccount,
  unassignFromCredential,
  type WantedProfile,
} from './profile-store.ts'

export interface CsrProfilesOptions {
  db: DatabasePool
  audit: AuditLog
  indexes: HistoryIndexes
}

export interface DryRun {
  valid: boolean
  violations: string[]
  /** Fields that were not checked, as no stored profile has had them so far. */
  unchecked: string[]
}

const DAY_MS = 86_400_000

export class CsrProfiles {
  readonly #options: CsrProfilesOptions

  constructor(options: CsrProfilesOptions) {
    this.#options = options
  }

  page(request: PageRequest, name?: string): Promise<PageOfList<ProfileRow>> {
    return readPageOf(pagesOfProfiles(this.#options.db, name), request)
  }

  async find(id: string): Promise<ProfileWithAccounts> {
    return (await findProfileWithAccounts(this.#options.db, id)) ?? Promise.reject(notFound('CSR profile'))
  }

  /** The one that counts; null when there is none. */
  async ofAccount(accountId: string): Promise<ProfileOfAccount | null> {
    if (!(await accountExists(this.#options.db, accountId))) throw notFound('account')
    return findProfileOfAccount(this.#options.db, accountId)
  }

  async ofCredential(credentialId: string): Promise<ProfileRow | null> {
    if (!(await findCredential(this.#options.db, credentialId))) throw notFound('credential')
    return findProfileOfCredential(this.#options.db, credentialId)
  }

  async create(actor: Actor, wanted: WantedProfile): Promise<ProfileRow> {
    await this.#prepare(wanted.data)
    return this.#options.audit.transaction(actor, async (tx, note) => {
      const made = await insertProfile(tx, uuidv7(Date.now()), wanted, actor.userId)
      if (!made) throw nameTaken(wanted.name)
      note('csr_profile.create', detailsOf(made))
      return made
    })
  }

  /** Replaces all of it. */
  async replace(actor: Actor, id: string, wanted: WantedProfile): Promise<ProfileRow> {
    if (!(await findProfile(this.#options.db, id))) throw notFound('CSR profile')
    await this.#prepare(wanted.data)
    const replaced = this.#options.audit.transaction(actor, async (tx, note) => {
      const before = await lockProfile(tx, id)
      if (!before) throw notFound('CSR profile')
      const after = await replaceProfile(tx, id, wanted)
      if (!after) return before
      note('csr_profile.update', { ...detailsOf(after), ...changesOf(before, after) })
      return after
    })
    return replaced.catch((error: unknown) => {
      throw error instanceof UniqueIntegrityConstraintViolationError ? nameTaken(wanted.name) : error
    })
  }

  /** Its accounts go back to the profile of their credential, or to none. */
  delete(actor: Actor, id: string): Promise<void> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      const profile = await findProfile(tx, id)
      if (!profile) throw notFound('CSR profile')
      await deleteProfile(tx, id)
      note('csr_profile.delete', detailsOf(profile))
    })
  }

  assignToAccount(actor: Actor, profileId: string, accountId: string): Promise<void> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      const profile = await requireHeld(tx, profileId)
      if (!(await accountExists(tx, accountId))) throw notFound('account')
      if (await assignToAccount(tx, profileId, accountId, actor.userId))
        note('csr_profile.assign', { ...detailsOf(profile), account_id: accountId })
    })
  }

  unassignFromAccount(actor: Actor, profileId: string, accountId: string): Promise<void> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      if (!(await lockGrantsOfAccount(tx, accountId))) throw notFound('account')
      const profile = await requireHeld(tx, profileId)
      if (await unassignFromAccount(tx, profileId, accountId))
        note('csr_profile.unassign', { ...detailsOf(profile), account_id: accountId })
    })
  }

  assignToCredential(actor: Actor, profileId: string, credentialId: string): Promise<void> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
      await grantProfile(tx, note, actor, credentialId, await requireHeld(tx, profileId))
    })
  }

  unassignFromCredential(actor: Actor, profileId: string, credentialId: string): Promise<void> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      if (!(await lockCredential(tx, credentialId))) throw notFound('credential')
      const profile = await requireHeld(tx, profileId)
      if (await unassignFromCredential(tx, profileId, credentialId))
        note('eab.unassign_csr_profile', { eab_id: credentialId, ...detailsOf(profile) })
    })
  }

  /** Says what a request would violate, and issues nothing. */
  async dryRun(id: string, csr: Csr, now: Date): Promise<DryRun> {
    const profile = await findProfile(this.#options.db, id)
    if (!profile) throw notFound('CSR profile')
    return this.dryRunOf(profile.profile_data, csr, now)
  }

  /** The same for data that is not stored. @throws AdminError for wrong data */
  async dryRunOf(data: object, csr: Csr, now: Date): Promise<DryRun> {
    const profile = profileOf(data)
    const { history, unchecked } = await this.#historyFor(profile, csr, now)
    const violations = csrProfileViolations(csr, profile, { history })
    return { valid: violations.length === 0, violations, unchecked }
  }

  async #historyFor(profile: CsrProfile, csr: Csr, now: Date) {
    if (!asksForHistory(profile)) return { history: undefined, unchecked: [] }
    if (!(await this.#options.indexes.exist())) {
      const unchecked = [
        ...(profile.reuseKey ? [] : ['reuse_key']),
        ...(profile.renewalWindowDays > 0 ? ['renewal_window_days'] : []),
      ]
      return { history: undefined, unchecked }
    }
    const history = await readHistory(this.#options.db, {
      spkiSha256: hashSpki(csr.spki),
      names: certifiedNames(csr).map(({ value }) => value),
      notDueBefore: new Date(now.getTime() + profile.renewalWindowDays * DAY_MS),
    })
    return { history, unchecked: [] }
  }

  /** @throws AdminError for wrong data, and `unavailable` while an index is being made */
  async #prepare(data: object): Promise<void> {
    if (asksForHistory(profileOf(data))) await this.#options.indexes.require()
  }
}

/** For a credential that is locked or was made in this transaction. */
export async function grantProfile(
  tx: Transaction,
  note: Note,
  actor: Actor,
  credentialId: string,
  profile: ProfileRow,
): Promise<void> {
  if (await assignToCredential(tx, profile.id, credentialId, actor.userId))
    note('eab.assign_csr_profile', { eab_id: credentialId, ...detailsOf(profile) })
}

export async function requireHeld(tx: Transaction, profileId: string): Promise<ProfileRow> {
  return (await holdProfile(tx, profileId)) ?? Promise.reject(notFound('CSR profile'))
}

/** @throws AdminError that names each wrong field */
export function profileOf(data: object): CsrProfile {
  try {
    return parseCsrProfile(data)
  } catch (error) {
    if (!(error instanceof CsrProfileError)) throw error
    const fields = error.faults.map((fault) => {
      const [, name = '', message = ''] = /^(\S+) (.*)$/s.exec(fault) ?? []
      return { field: name === 'profile_data' ? name : `profile_data.${name}`, message }
    })
    const sentence = fields.map(({ field, message }) => `'${field}' ${message}`).join('; ')
    throw new AdminError('invalid_request', `the profile is not right: ${sentence}`, { fields })
  }
}

const detailsOf = ({ id, name }: ProfileRow) => ({ profile_id: id, name })

const nameTaken = (name: string) => new AdminError('conflict', `there is a CSR profile ${JSON.stringify(name)} already`)

/** Longer values are left out, and their fields named. */
const LONGEST_CHANGE = 2_048

function changesOf(before: ProfileRow, after: ProfileRow) {
  const fields = [...new Set([...Object.keys(before.profile_data), ...Object.keys(after.profile_data)])]
  const changed: Record<string, unknown> = {}
  const note = (field: string, from: unknown, to: unknown) => {
    const texts = [JSON.stringify(from), JSON.stringify(to)]
    if (texts[0] === texts[1]) return
    const isShort = (texts[0]?.length ?? 0) + (texts[1]?.length ?? 0) <= LONGEST_CHANGE
    changed[field] = isShort ? { before: from ?? null, after: to ?? null } : 'changed'
  }
  note('name', before.name, after.name)
  note('description', before.description, after.description)
  for (const field of fields) note(field, before.profile_data[field], after.profile_data[field])
  return { changed }
}
