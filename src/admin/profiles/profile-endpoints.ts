/** `/csr-profiles`: demands on the certification requests of accounts. */

import { UniqueIntegrityConstraintViolationError } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { asksForHistory } from '../../domain/csr-profile.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { AdminContext } from '../context.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { line, uuid, withTimes } from '../schemas.ts'
import { ProfileData, profileOf } from './csr-profile-data.ts'
import type { HistoryIndexes } from './history-indexes.ts'
import {
  CsrProfile,
  CsrProfileWithAccounts,
  deleteProfile,
  findProfile,
  findProfileWithAccounts,
  insertProfile,
  lockProfile,
  type ProfileRow,
  pagesOfProfiles,
  profileDetails,
  replaceProfile,
  type WantedProfile,
} from './profile-store.ts'

export const csrProfileBody = <R extends ProfileRow>(row: R) => ({
  ...withTimes(row),
  description: row.description ?? '',
})

const wantedProfile = z.strictObject({
  name: line(255),
  description: z.string().max(4_096).optional(),
  profile_data: ProfileData,
})

const wantedOf = ({ name, description, profile_data: data }: z.output<typeof wantedProfile>) => ({
  name,
  description,
  data,
})

const params = z.strictObject({ profile_id: uuid() })

export const CSR_PROFILES = endpointGroup('CSR profiles', {
  listCsrProfiles: endpoint({
    route: 'GET /csr-profiles',
    // Existing clients also use the singular.
    aliases: ['/csr-profile'],
    permission: 'read',
    reply: { status: 200, schema: z.array(CsrProfile) },
    query: z.strictObject({ name: line(255).optional(), ...placeParameters() }),
    async handle({ query: { name, ...place } }, { db, pages }) {
      const { rows, next } = await readByCursor(place, pages, pagesOfProfiles(db, name))
      return { body: rows.map(csrProfileBody), next }
    },
  }),
  createCsrProfile: endpoint({
    route: 'POST /csr-profiles',
    aliases: ['/csr-profile'],
    permission: 'administer',
    body: wantedProfile,
    reply: { status: 201, schema: CsrProfile },
    errors: ['conflict', 'unavailable'],
    audit: 'csr_profile.create',
    handle: async ({ body, author }, context) => ({
      body: csrProfileBody(await createProfile(context, author, wantedOf(body))),
    }),
  }),
  getCsrProfile: endpoint({
    route: 'GET /csr-profiles/{profile_id}',
    aliases: ['/csr-profile/{profile_id}'],
    permission: 'read',
    params,
    reply: { status: 200, schema: CsrProfileWithAccounts },
    async handle({ params }, { db }) {
      const profile = requireFound(await findProfileWithAccounts(db, params.profile_id), 'CSR profile')
      return { body: csrProfileBody(profile) }
    },
  }),
  replaceCsrProfile: endpoint({
    route: 'PUT /csr-profiles/{profile_id}',
    aliases: ['/csr-profile/{profile_id}'],
    permission: 'administer',
    params,
    body: wantedProfile,
    reply: { status: 200, schema: CsrProfile },
    errors: ['conflict', 'unavailable'],
    audit: 'csr_profile.update',
    handle: async ({ params, body, author }, context) => ({
      body: csrProfileBody(await replace(context, author, params.profile_id, wantedOf(body))),
    }),
  }),
  deleteCsrProfile: endpoint({
    route: 'DELETE /csr-profiles/{profile_id}',
    aliases: ['/csr-profile/{profile_id}'],
    permission: 'administer',
    params,
    reply: { status: 204 },
    audit: 'csr_profile.delete',
    handle: ({ params, author }, { audit }) => withoutBody(remove(audit, author, params.profile_id)),
  }),
})

type Means = Pick<AdminContext, 'audit' | 'historyIndexes'>

export async function createProfile(
  { audit, historyIndexes }: Means,
  actor: Actor,
  wanted: WantedProfile,
): Promise<ProfileRow> {
  await prepare(historyIndexes, wanted.data)
  return audit.transaction(actor, async (tx, note) => {
    const made = await insertProfile(tx, uuidv7(Date.now()), wanted, actor.userId)
    if (!made) throw nameTaken(wanted.name)
    note('csr_profile.create', profileDetails(made), undefined, profileData(made))
    return made
  })
}

/** Replaces all of it. */
async function replace(
  { db, audit, historyIndexes }: AdminContext,
  actor: Actor,
  id: string,
  wanted: WantedProfile,
): Promise<ProfileRow> {
  requireFound(await findProfile(db, id), 'CSR profile')
  await prepare(historyIndexes, wanted.data)
  const replaced = audit.transaction(actor, async (tx, note) => {
    const before = requireFound(await lockProfile(tx, id), 'CSR profile')
    const after = await replaceProfile(tx, id, wanted)
    if (!after) return before
    note('csr_profile.update', { ...profileDetails(after), ...changesOf(before, after) }, undefined, profileData(after))
    return after
  })
  return replaced.catch((error: unknown) => {
    throw error instanceof UniqueIntegrityConstraintViolationError ? nameTaken(wanted.name) : error
  })
}

/** Its accounts go back to the profile of their credential, or to none. */
function remove(audit: AuditLog, actor: Actor, id: string): Promise<void> {
  return audit.transaction(actor, async (tx, note) => {
    const profile = requireFound(await findProfile(tx, id), 'CSR profile')
    await deleteProfile(tx, id)
    note('csr_profile.delete', profileDetails(profile))
  })
}

/** @throws AdminError for wrong data, and `unavailable` while an index is being made */
async function prepare(indexes: HistoryIndexes, data: object): Promise<void> {
  if (asksForHistory(profileOf(data))) await indexes.require()
}

const profileData = ({ description, profile_data }: ProfileRow) => ({ description, profile_data })

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
