/**
 * Takes over the work of administrators: identifiers and CSR profiles with their holders, administrators themselves with
 * their password hashes, and the audit log.
 */

import { lastImportedEntry } from '../admin/audit/audit-store.ts'
import { lockCredential } from '../admin/eab/credential-store.ts'
import { allowToCredential, findIdentifierByValue, insertIdentifier } from '../admin/grants/allowed-identifiers.ts'
import { ProfileData, profileOf } from '../admin/profiles/csr-profile-data.ts'
import { assignToCredential, findProfileByName, insertProfile } from '../admin/profiles/profile-store.ts'
import { isUsableHash } from '../admin/users/password-hash.ts'
import { AdminError } from '../domain/admin-error.ts'
import { isUsername, type Role, USERNAME_RULE } from '../domain/administrator.ts'
import { type AllowedIdentifier, normalizeAllowedIdentifier } from '../domain/allowlist.ts'
import { canonicalJson } from '../domain/audit-chain.ts'
import { asksForHistory, type CsrProfile } from '../domain/csr-profile.ts'
import { UNSCOPED_ROLES } from '../domain/permissions.ts'
import { isMailAddress, MAIL_ADDRESS } from '../shared/lib/bounded.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import type { Statement } from '../store/database.ts'
import { HISTORY_INDEXES, readIndexes } from '../store/optional-indexes.ts'
import { findUserForLogin, insertUser } from '../store/user-store.ts'
import { findCredentials } from './credentials.ts'
import type {
  ImportedAdministrator,
  ImportedAuditEntry,
  ImportedIdentifier,
  ImportedProfile,
  Outcome,
  PageContext,
  WritePage,
} from './model.ts'

export const writeIdentifiers: WritePage<ImportedIdentifier> = (page, context) =>
  oneByOne(page, async (imported) => {
    const normal = normalizeAllowedIdentifier(imported.type, imported.value)
    if (!normal.ok) return { name: imported.value, skipped: normal.reason }
    const identifier: AllowedIdentifier = { type: imported.type, value: normal.value }
    const { tx, queries, isDryRun } = context
    const here = await findIdentifierByValue(tx, identifier)
    if (isDryRun) return here ? 'known' : plan(context, `${imported.type} ${normal.value}`)
    const row = here ?? (await insertIdentifier(tx, { id: uuidv7(Date.now()), ...identifier, createdBy: undefined }))
    if (!row) return { name: imported.value, skipped: 'is being changed by somebody else' }
    // Credentials come before accounts: a grant to a credential reaches its accounts through it.
    let granted = 0
    for (const id of await lockedCredentials(imported.credentials, context))
      if (await allowToCredential(tx, row.id, id)) granted += 1
    granted += await grantIdentifier(queries, row.id, imported.accounts)
    return outcomeOf(here !== null, granted)
  })

export const writeProfiles: WritePage<ImportedProfile> = (page, context) =>
  oneByOne(page, async (imported) => {
    const { name, description } = imported
    const data = readProfile(imported)
    if ('skipped' in data) return data
    const { tx, queries, isDryRun } = context
    const here = await findProfileByName(tx, name)
    const contents = canonicalJson(data.data)
    const others = here ? canonicalJson(here.profile_data) : context.planned.get(`profile ${name}`)
    if (others !== undefined && others !== contents)
      return { name, skipped: 'a CSR profile of this name with other contents is here' }
    if (!here && asksForHistory(data.profile) && !(await canReadHistory(context)))
      return {
        name,
        skipped: 'it looks at earlier certificates; run chancery db search-indexes --history, and import again',
      }
    if (isDryRun) return here ? 'known' : plan(context, `profile ${name}`, contents)
    const row = here ?? (await insertProfile(tx, uuidv7(Date.now()), { name, description, data: data.data }, undefined))
    if (!row) return { name, skipped: 'is being changed by somebody else' }
    let assigned = 0
    for (const id of await lockedCredentials(imported.credentials, context))
      if (await assignToCredential(tx, row.id, id, undefined)) assigned += 1
    assigned += await assignProfile(queries, row.id, imported.accounts)
    return outcomeOf(here !== null, assigned)
  })

/** What comes twice is known the second time, as in the real run. */
function plan({ planned }: PageContext, what: string, contents = ''): Outcome {
  if (planned.has(what)) return 'known'
  planned.set(what, contents)
  return 'new'
}

async function oneByOne<T>(page: readonly T[], write: (one: T) => Promise<Outcome>): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const one of page) outcomes.push(await write(one))
  return outcomes
}

const outcomeOf = (isKnown: boolean, given: number): Outcome => (!isKnown ? 'new' : given > 0 ? 'changed' : 'known')

async function lockedCredentials(
  kids: readonly string[],
  { tx, queries, foreignKids }: PageContext,
): Promise<string[]> {
  const ours = kids.filter((kid) => !foreignKids.has(kid))
  const ids = (await findCredentials(queries, ours)).map(({ id }) => id).sort()
  for (const id of ids) await lockCredential(tx, id)
  return ids
}

async function canReadHistory({ tx }: PageContext): Promise<boolean> {
  return (await readIndexes(tx, HISTORY_INDEXES)).some(({ valid }) => valid)
}

/** Members that are unknown here are refused: what they demanded would be lost without a word. */
function readProfile({
  name,
  data,
}: ImportedProfile): { data: object; profile: CsrProfile } | Exclude<Outcome, string> {
  if (name === '' || name.length > 255) return { name: name.slice(0, 255), skipped: 'its name is empty or too long' }
  const read = ProfileData.safeParse(data)
  if (!read.success) {
    const [issue] = read.error.issues
    return { name, skipped: `'profile_data' is not right here: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}` }
  }
  try {
    return { data: read.data, profile: profileOf(read.data) }
  } catch (error) {
    if (error instanceof AdminError) return { name, skipped: error.message }
    throw error
  }
}

const GRANT_IDENTIFIER: Statement = {
  name: 'import-grant-identifier',
  text: `
    INSERT INTO account_allowed_identifiers (account_id, identifier_id)
    SELECT id, $1 FROM accounts WHERE thumbprint = ANY ($2::text[]) ON CONFLICT DO NOTHING RETURNING account_id`,
}

/** To accounts that have it from nowhere else. @returns how many */
async function grantIdentifier(
  queries: PageContext['queries'],
  id: string,
  thumbprints: readonly string[],
): Promise<number> {
  return (await queries.query(GRANT_IDENTIFIER, [id, thumbprints])).length
}

const ASSIGN_PROFILE: Statement = {
  name: 'import-assign-profile',
  text: `
    INSERT INTO account_csr_profiles (account_id, csr_profile_id)
    SELECT id, $1 FROM accounts WHERE thumbprint = ANY ($2::text[]) ON CONFLICT DO NOTHING RETURNING account_id`,
}

/** To accounts that have none. @returns how many */
async function assignProfile(
  queries: PageContext['queries'],
  id: string,
  thumbprints: readonly string[],
): Promise<number> {
  return (await queries.query(ASSIGN_PROFILE, [id, thumbprints])).length
}

export const writeAdministrators: WritePage<ImportedAdministrator> = async (page, context) => {
  const { tx, note, isDryRun } = context
  const outcomes: Outcome[] = []
  for (const user of page) {
    const { username } = user
    const fault = faultOf(user)
    if (fault) outcomes.push({ name: username, skipped: fault })
    else if (await findUserForLogin(tx, username)) outcomes.push('known')
    else if (isDryRun) outcomes.push(plan(context, `user ${username.toLowerCase()}`))
    else {
      const role = user.role as Role
      const made = await insertUser(tx, { ...user, role, id: uuidv7(Date.now()) })
      if (made) note('user.import', { username, role }, made.id)
      outcomes.push('new')
    }
  }
  return outcomes
}

function faultOf({ username, email, role, passwordHash }: ImportedAdministrator): string | undefined {
  if (!isUsername(username)) return `its username ${USERNAME_RULE}`
  if (!isMailAddress(email)) return `its address must be ${MAIL_ADDRESS}`
  if (!UNSCOPED_ROLES.includes(role as Role)) return `its role must be ${UNSCOPED_ROLES.join(' or ')}`
  return isUsableHash(passwordHash) ? undefined : 'its password hash is of a kind that cannot be verified here'
}

/** Entries come in the order of their time, so those up to the last one that is here are known. */
export const writeAuditEntries: WritePage<ImportedAuditEntry> = async (page, { tx, note, source, isDryRun }) => {
  const last = await lastImportedEntry(tx, source)
  const isKnown = ({ at, id }: ImportedAuditEntry) => {
    const time = at.toISOString()
    return last !== undefined && (time < last.at || (time === last.at && id <= last.id))
  }
  return page.map((entry): Outcome => {
    if (isKnown(entry)) return 'known'
    const { id, at, action, author, ipAddress, details } = entry
    if (!isDryRun)
      note('import.audit_entry', {
        from: source,
        id,
        at: at.toISOString(),
        action,
        author,
        ip_address: ipAddress,
        details,
      })
    return 'new'
  })
}
