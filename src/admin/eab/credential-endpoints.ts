/** `/eab`: binding credentials (RFC 8555 §7.3.4) and what they grant. */

import { z } from 'zod/v4'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { type CredentialRow, MOST_COUNTED } from '../../store/credential-store.ts'
import { CREDENTIAL_STATUSES } from '../../store/eab-list.ts'
import { ADMINS, endpoint, endpointGroup } from '../endpoint.ts'
import { longPageRequest, nextOf, placeParameters } from '../pages.ts'
import { CsrProfile, csrProfileBody } from '../profiles/profile-endpoints.ts'
import { futureInstant, line, time, timeOrNull, timestamp, uuid } from '../schemas.ts'
import {
  ChangedIdentifiers,
  IdentifierOutcomes,
  outcomesBody,
  PlainIdentifier,
  plainIdentifierBody,
} from './identifier-endpoints.ts'

export const EabCredential = z
  .strictObject({
    id: z.uuid(),
    kid: z.string(),
    label: z.string(),
    created_by: z.uuid().nullable().meta({ description: 'Null for the command line.' }),
    account_id: z.uuid().nullable().meta({ description: 'The account registered with it last.' }),
    used: z.boolean(),
    used_at: timestamp().nullable(),
    revoked: z.boolean(),
    created_at: timestamp(),
    profiles: z.array(z.string()).nullable().meta({ description: 'CA profiles its accounts may order; null for all.' }),
    preapproved_networks: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Networks from which allowed identifiers need no challenge.' }),
    expires_at: timestamp().nullable().meta({ description: 'No account registers with it afterwards.' }),
    max_uses: z
      .int()
      .nullable()
      .meta({ description: 'Accounts that may register with it; null leaves it to acme.eab_reusable.' }),
    uses: z.int(),
    allowed_networks: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Networks from which accounts may register with it; null for all.' }),
  })
  .meta({ id: 'EabCredential' })

const EabCredentialWithKey = z
  .strictObject({
    ...EabCredential.shape,
    hmac_key: z.string().meta({ description: 'base64url. Shown once; it cannot be read again.' }),
  })
  .meta({ id: 'EabCredentialWithKey' })

function credentialBody(row: CredentialRow): z.input<typeof EabCredential> {
  const { id, kid, label, created_by, account_id, used, used_at, revoked, created_at } = row
  const { profiles, preapproved_networks, expires_at, max_uses, uses, allowed_networks } = row
  return {
    id,
    kid,
    label: label ?? '',
    created_by,
    account_id,
    used,
    used_at: timeOrNull(used_at),
    revoked,
    created_at: time(created_at),
    profiles,
    preapproved_networks,
    expires_at: timeOrNull(expires_at),
    max_uses,
    uses,
    allowed_networks,
  }
}

const params = z.strictObject({ cred_id: uuid() })
const identifierParams = z.strictObject({ cred_id: uuid(), identifier_id: uuid() })
const profileParams = z.strictObject({ cred_id: uuid(), profile_id: uuid() })
const MOST_ENTRIES = 100
const MOST_USES = 1_000_000
const texts = () => boundedArray(line(255), MOST_ENTRIES, 1).optional()

const upTo = () => z.int().meta({ description: `Counted up to ${MOST_COUNTED}.` })
const EabCascade = z
  .strictObject({
    accounts: upTo(),
    account_ids: z.array(z.uuid()).meta({ description: 'The first 100.' }),
    authorizations: upTo(),
    orders: z.int().meta({ description: `Open ones. Counted up to ${MOST_COUNTED}.` }),
    certificates: z.int().meta({ description: `They stay valid. Counted up to ${MOST_COUNTED}.` }),
  })
  .meta({ id: 'EabCascade' })

const MOST_NAMED = 100
const RevokedEabCredential = z
  .strictObject({
    ...EabCredential.shape,
    revoked_accounts: z.int().meta({ description: 'Accounts that this call has revoked.' }),
    revoked_account_ids: z.array(z.uuid()).meta({ description: `The first ${MOST_NAMED} of them.` }),
  })
  .meta({ id: 'RevokedEabCredential' })

export const EAB = endpointGroup('EAB credentials', {
  listEabCredentials: endpoint({
    route: 'GET /eab',
    roles: ADMINS,
    summary: 'Lists credentials, the newest first.',
    reply: { status: 200, schema: z.array(EabCredential) },
    query: z.strictObject({
      kid: line(255).optional(),
      status: z
        .enum(CREDENTIAL_STATUSES)
        .optional()
        .meta({ description: 'Open ones are neither revoked nor expired; they may be used up.' }),
      ...placeParameters(),
    }),
    async handle({ query: { kid, status, ...place } }, { credentials, pages }) {
      const page = await credentials.list(longPageRequest(place, pages), kid, status)
      return { body: page.rows.map(credentialBody), next: nextOf(page) }
    },
  }),
  createEabCredential: endpoint({
    route: 'POST /eab',
    roles: ADMINS,
    summary: 'Makes a credential and shows its HMAC key.',
    body: z.strictObject({
      kid: line(255),
      label: z.string().max(255).optional(),
      profiles: texts(),
      preapproved_networks: texts(),
      expires_at: futureInstant().optional(),
      max_uses: z.int().min(1).max(MOST_USES).optional(),
      allowed_networks: texts(),
      allowed_identifiers: texts().meta({ description: 'What it grants; identifiers that are missing are made.' }),
      csr_profile_id: uuid().optional().meta({ description: 'The CSR profile that it gives to its accounts.' }),
    }),
    reply: { status: 201, schema: EabCredentialWithKey },
    errors: ['not_found', 'conflict', 'unavailable'],
    audit: 'eab.create',
    async handle({ body, author }, { credentials }) {
      const { kid, label, profiles, preapproved_networks: preapprovedNetworks } = body
      const { expires_at: expiresAt, max_uses: maxUses, allowed_networks: allowedNetworks } = body
      const { allowed_identifiers: identifiers, csr_profile_id: csrProfileId } = body
      const limits = { expiresAt, maxUses, allowedNetworks }
      const wanted = { kid, label, profiles, preapprovedNetworks, ...limits, identifiers, csrProfileId }
      const made = await credentials.create(author, wanted)
      return { body: { ...credentialBody(made), hmac_key: made.hmac_key } }
    },
  }),
  getEabCredential: endpoint({
    route: 'GET /eab/{cred_id}',
    roles: ADMINS,
    summary: 'Shows one credential without its key.',
    params,
    reply: { status: 200, schema: EabCredential },
    errors: ['not_found'],
    handle: async ({ params }, { credentials }) => ({ body: credentialBody(await credentials.find(params.cred_id)) }),
  }),
  getCascadeOfEab: endpoint({
    route: 'GET /eab/{cred_id}/cascade',
    roles: ADMINS,
    summary: 'Counts what a revocation would take with it, and the certificates that would stay valid.',
    params,
    reply: { status: 200, schema: EabCascade },
    errors: ['not_found'],
    handle: async ({ params }, { credentials }) => ({ body: await credentials.cascade(params.cred_id) }),
  }),
  revokeEabCredential: endpoint({
    route: 'POST /eab/{cred_id}/revoke',
    roles: ADMINS,
    summary: 'Revokes a credential, the accounts registered with it and their authorizations.',
    params,
    reply: { status: 200, schema: RevokedEabCredential },
    errors: ['not_found'],
    audit: 'eab.revoke',
    async handle({ params, author }, { credentials }) {
      const { credential, revokedAccounts } = await credentials.revoke(author, params.cred_id)
      const revoked_account_ids = revokedAccounts.slice(0, MOST_NAMED)
      return { body: { ...credentialBody(credential), revoked_accounts: revokedAccounts.length, revoked_account_ids } }
    },
  }),
  listIdentifiersOfEab: endpoint({
    route: 'GET /eab/{cred_id}/allowed-identifiers',
    roles: ADMINS,
    summary: 'Lists what a credential grants to its accounts.',
    params,
    reply: { status: 200, schema: z.array(PlainIdentifier) },
    errors: ['not_found'],
    query: z.strictObject(placeParameters()),
    async handle({ params, query }, { identifiers, pages }) {
      const page = await identifiers.ofCredential(params.cred_id, longPageRequest(query, pages))
      return { body: page.rows.map(plainIdentifierBody), next: nextOf(page) }
    },
  }),
  changeIdentifiersOfEab: endpoint({
    route: 'POST /eab/{cred_id}/allowed-identifiers',
    roles: ADMINS,
    summary: 'Allows identifiers to every account of a credential, and takes others back, all in one commit.',
    params,
    body: ChangedIdentifiers,
    reply: { status: 200, schema: IdentifierOutcomes },
    errors: ['not_found', 'conflict'],
    audit: 'eab.add_identifier',
    handle: async ({ params, body, author }, { identifiers }) => ({
      body: outcomesBody(await identifiers.changeOfCredential(author, params.cred_id, body)),
    }),
  }),
  addIdentifierToEab: endpoint({
    route: 'PUT /eab/{cred_id}/allowed-identifiers/{identifier_id}',
    roles: ADMINS,
    summary: 'Allows an identifier to every account of a credential, as long as it is not taken back.',
    params: identifierParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.add_identifier',
    async handle({ params, author }, { identifiers }) {
      await identifiers.allowToCredential(author, params.identifier_id, params.cred_id)
      return {}
    },
  }),
  removeIdentifierFromEab: endpoint({
    route: 'DELETE /eab/{cred_id}/allowed-identifiers/{identifier_id}',
    roles: ADMINS,
    summary: 'Takes it back. What is allowed to an account itself stays.',
    params: identifierParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.remove_identifier',
    async handle({ params, author }, { identifiers }) {
      await identifiers.disallowToCredential(author, params.identifier_id, params.cred_id)
      return {}
    },
  }),
  getCsrProfileOfEab: endpoint({
    route: 'GET /eab/{cred_id}/csr-profile',
    roles: ADMINS,
    summary: 'Shows the CSR profile of a credential, or null.',
    params,
    reply: { status: 200, schema: CsrProfile.nullable() },
    errors: ['not_found'],
    async handle({ params }, { csrProfiles }) {
      const profile = await csrProfiles.ofCredential(params.cred_id)
      return { body: profile && csrProfileBody(profile) }
    },
  }),
  assignCsrProfileToEab: endpoint({
    route: 'PUT /eab/{cred_id}/csr-profile/{profile_id}',
    roles: ADMINS,
    summary: 'Gives a CSR profile to every account of a credential that has none of its own.',
    params: profileParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.assign_csr_profile',
    async handle({ params, author }, { csrProfiles }) {
      await csrProfiles.assignToCredential(author, params.profile_id, params.cred_id)
      return {}
    },
  }),
  unassignCsrProfileFromEab: endpoint({
    route: 'DELETE /eab/{cred_id}/csr-profile/{profile_id}',
    roles: ADMINS,
    summary: 'Takes it back. A profile of the account itself stays.',
    params: profileParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.unassign_csr_profile',
    async handle({ params, author }, { csrProfiles }) {
      await csrProfiles.unassignFromCredential(author, params.profile_id, params.cred_id)
      return {}
    },
  }),
})
