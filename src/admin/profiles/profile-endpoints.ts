/** `/csr-profiles`: demands on the certification requests of accounts, and dry runs. */

import { z } from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { type Csr, CsrError, parseCsr } from '../../shared/pki/csr.ts'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { longPageRequest, nextOf, placeParameters } from '../pages.ts'
import { line, time, timestamp, uuid } from '../schemas.ts'
import { ProfileData } from './csr-profile-data.ts'
import type { ProfileRow } from './profile-store.ts'

export const CsrProfile = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    description: z.string(),
    // Not the strict schema: what an earlier release or the command line has stored must be shown.
    profile_data: z.record(z.string(), z.unknown()).meta({ description: 'See CsrProfileData.' }),
    created_by: z.uuid().nullable().meta({ description: 'Null for the command line.' }),
    created_at: timestamp(),
    updated_at: timestamp(),
  })
  .meta({ id: 'CsrProfile' })

const CsrProfileWithAccounts = z
  .strictObject({
    ...CsrProfile.shape,
    account_ids: z
      .array(z.uuid())
      .meta({ description: 'Accounts for which it counts, themselves or through their credential; the first.' }),
    more_accounts: z.boolean().meta({ description: 'There are more than these 10,000.' }),
  })
  .meta({ id: 'CsrProfileWithAccounts' })

const CsrProfileOfAccount = z
  .strictObject({
    ...CsrProfile.shape,
    eab_credential_id: z
      .uuid()
      .nullable()
      .meta({ description: 'The credential through which it counts; null for a profile of the account itself.' }),
  })
  .meta({ id: 'CsrProfileOfAccount' })

const CsrVerdict = z
  .strictObject({
    valid: z.boolean(),
    violations: z.array(z.string()).meta({ description: 'At most 50, and how many more there are.' }),
    unchecked: z
      .array(z.string())
      .optional()
      .meta({ description: 'Fields that are checked only once a profile with them is stored.' }),
  })
  .meta({ id: 'CsrVerdict' })

export function csrProfileBody(row: ProfileRow): z.input<typeof CsrProfile> {
  const { id, name, description, profile_data, created_by, created_at, updated_at } = row
  return {
    id,
    name,
    description: description ?? '',
    profile_data,
    created_by,
    created_at: time(created_at),
    updated_at: time(updated_at),
  }
}

const wantedProfile = z.strictObject({
  name: line(255),
  description: z.string().max(4_096).optional(),
  profile_data: ProfileData,
})
const csrText = z.string().max(60_000).meta({ description: 'PKCS #10 in DER, base64.' })

const wantedOf = ({ name, description, profile_data: data }: z.output<typeof wantedProfile>) => ({
  name,
  description,
  data,
})

/** base64 as any tool writes it: line breaks, either alphabet, with or without padding. */
function csrOf(text: string): Csr {
  const base64 = text.replaceAll(/\s/g, '')
  if (!/^(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}$/.test(base64)) throw wrongCsr('is not base64')
  try {
    return parseCsr(Buffer.from(base64, 'base64'))
  } catch (error) {
    if (error instanceof CsrError) throw wrongCsr(`is no certification request: ${error.message}`)
    throw error
  }
}

const wrongCsr = (message: string) =>
  new AdminError('invalid_request', `the body is not right: 'csr' ${message}`, { fields: [{ field: 'csr', message }] })

const params = z.strictObject({ profile_id: uuid() })
const associationParams = z.strictObject({ profile_id: uuid(), account_id: uuid() })
const verdictOf = ({ unchecked, ...verdict }: { valid: boolean; violations: string[]; unchecked: string[] }) => ({
  ...verdict,
  ...(unchecked.length > 0 && { unchecked }),
})

export const CSR_PROFILES = endpointGroup('CSR profiles', {
  listCsrProfiles: endpoint({
    route: 'GET /csr-profiles',
    // Existing clients also use the singular.
    aliases: ['/csr-profile'],
    roles: BOTH_ROLES,
    summary: 'Lists all profiles, the newest first.',
    reply: { status: 200, schema: z.array(CsrProfile) },
    query: z.strictObject({ name: line(255).optional(), ...placeParameters() }),
    async handle({ query: { name, ...place } }, { csrProfiles, pages }) {
      const page = await csrProfiles.page(longPageRequest(place, pages), name)
      return { body: page.rows.map(csrProfileBody), next: nextOf(page) }
    },
  }),
  createCsrProfile: endpoint({
    route: 'POST /csr-profiles',
    aliases: ['/csr-profile'],
    roles: ADMINS,
    summary: 'Makes a profile.',
    body: wantedProfile,
    reply: { status: 201, schema: CsrProfile },
    errors: ['conflict', 'unavailable'],
    audit: 'csr_profile.create',
    handle: async ({ body, author }, { csrProfiles }) => ({
      body: csrProfileBody(await csrProfiles.create(author, wantedOf(body))),
    }),
  }),
  getCsrProfile: endpoint({
    route: 'GET /csr-profiles/{profile_id}',
    aliases: ['/csr-profile/{profile_id}'],
    roles: BOTH_ROLES,
    summary: 'Shows one profile.',
    params,
    reply: { status: 200, schema: CsrProfileWithAccounts },
    errors: ['not_found'],
    async handle({ params }, { csrProfiles }) {
      const { account_ids, more_accounts, ...profile } = await csrProfiles.find(params.profile_id)
      return { body: { ...csrProfileBody(profile), account_ids, more_accounts } }
    },
  }),
  replaceCsrProfile: endpoint({
    route: 'PUT /csr-profiles/{profile_id}',
    aliases: ['/csr-profile/{profile_id}'],
    roles: ADMINS,
    summary: 'Replaces a profile, for all who have it, at once.',
    params,
    body: wantedProfile,
    reply: { status: 200, schema: CsrProfile },
    errors: ['not_found', 'conflict', 'unavailable'],
    audit: 'csr_profile.update',
    handle: async ({ params, body, author }, { csrProfiles }) => ({
      body: csrProfileBody(await csrProfiles.replace(author, params.profile_id, wantedOf(body))),
    }),
  }),
  deleteCsrProfile: endpoint({
    route: 'DELETE /csr-profiles/{profile_id}',
    aliases: ['/csr-profile/{profile_id}'],
    roles: ADMINS,
    summary: 'Deletes a profile; its accounts go back to that of their credential, or to none.',
    params,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'csr_profile.delete',
    async handle({ params, author }, { csrProfiles }) {
      await csrProfiles.delete(author, params.profile_id)
      return {}
    },
  }),
  validateCsr: endpoint({
    route: 'POST /csr-profiles/{profile_id}/validate',
    roles: BOTH_ROLES,
    summary: 'Says what a request would violate, and issues nothing.',
    params,
    body: z.strictObject({ csr: csrText }),
    reply: { status: 200, schema: CsrVerdict },
    errors: ['not_found', 'rate_limited'],
    async handle({ params, body, author }, { csrProfiles, profileTrials }) {
      const trial = async () => csrProfiles.dryRun(params.profile_id, csrOf(body.csr), new Date())
      return { body: verdictOf(await profileTrials.run(author.userId, trial)) }
    },
  }),
  validateCsrAgainst: endpoint({
    route: 'POST /csr-profiles/validate',
    roles: BOTH_ROLES,
    summary: 'The same for profile data that is not stored.',
    body: z.strictObject({ profile_data: ProfileData, csr: csrText }),
    reply: { status: 200, schema: CsrVerdict },
    errors: ['rate_limited'],
    async handle({ body, author }, { csrProfiles, profileTrials }) {
      const trial = async () => csrProfiles.dryRunOf(body.profile_data, csrOf(body.csr), new Date())
      return { body: verdictOf(await profileTrials.run(author.userId, trial)) }
    },
  }),
  assignCsrProfile: endpoint({
    route: 'PUT /csr-profiles/{profile_id}/accounts/{account_id}',
    roles: ADMINS,
    summary: 'Gives a profile to an account itself, where it wins over that of its credential.',
    params: associationParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'csr_profile.assign',
    async handle({ params, author }, { csrProfiles }) {
      await csrProfiles.assignToAccount(author, params.profile_id, params.account_id)
      return {}
    },
  }),
  unassignCsrProfile: endpoint({
    route: 'DELETE /csr-profiles/{profile_id}/accounts/{account_id}',
    roles: ADMINS,
    summary: 'Takes it back: the account has the profile of its credential, or none.',
    params: associationParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'csr_profile.unassign',
    async handle({ params, author }, { csrProfiles }) {
      await csrProfiles.unassignFromAccount(author, params.profile_id, params.account_id)
      return {}
    },
  }),
  getCsrProfileOfAccount: endpoint({
    route: 'GET /accounts/{account_id}/csr-profile',
    roles: BOTH_ROLES,
    summary: 'Shows the profile that counts for an account, or null.',
    params: z.strictObject({ account_id: uuid() }),
    reply: { status: 200, schema: CsrProfileOfAccount.nullable() },
    errors: ['not_found'],
    async handle({ params }, { csrProfiles }) {
      const profile = await csrProfiles.ofAccount(params.account_id)
      return { body: profile && { ...csrProfileBody(profile), eab_credential_id: profile.eab_credential_id } }
    },
  }),
})
