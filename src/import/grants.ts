/** Allowed identifiers and CSR profiles, with the accounts and credentials that hold them. */

import { lockCredential } from '../admin/eab/credential-store.ts'
import { allowToCredential, findIdentifierByValue, insertIdentifier } from '../admin/grants/allowed-identifiers.ts'
import { ProfileData, profileOf } from '../admin/profiles/csr-profile-data.ts'
import { assignToCredential, findProfileByName, insertProfile } from '../admin/profiles/profile-store.ts'
import { AdminError } from '../domain/admin-error.ts'
import { type AllowedIdentifier, normalizeAllowedIdentifier } from '../domain/allowlist.ts'
import { canonicalJson } from '../domain/audit-chain.ts'
import { asksForHistory, type CsrProfile } from '../domain/csr-profile.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { HISTORY_INDEXES, readIndexes } from '../store/optional-indexes.ts'
import { assignProfile, grantIdentifier } from './account-import.ts'
import { findCredentials } from './credential-import.ts'
import type { ImportedIdentifier, ImportedProfile, Outcome } from './model.ts'
import type { PageContext, WritePage } from './page.ts'

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
export function plan({ planned }: PageContext, what: string, contents = ''): Outcome {
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
