/** `/eab/{cred_id}/…`: what a binding credential grants to its accounts, names and a CSR profile. */

import * as z from 'zod/v4'
import { scopeOf } from '../../domain/permissions.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { newNamesAct } from '../approvals/acts.ts'
import type { ActMeans } from '../context.ts'
import { longPageRequest, nextOf, placeParameters, readPageOf } from '../pages.ts'
import { giveToCredential, takeFromCredential } from '../profiles/profile-assignments.ts'
import { CsrProfile, csrProfileBody } from '../profiles/profile-endpoints.ts'
import { findProfileOfCredential } from '../profiles/profile-store.ts'
import { uuid } from '../schemas.ts'
import {
  changeOfCredential,
  giveNameToCredential,
  readIdentifiers,
  takeNameFromCredential,
} from './allowed-identifiers.ts'
import { credentialParams, requireCredential } from './credential-endpoints.ts'
import {
  ChangedIdentifiers,
  IdentifierOutcomes,
  identifiersWith,
  outcomesBody,
  PlainIdentifier,
  plainIdentifierBody,
} from './identifier-endpoints.ts'
import { pagesOfCredential } from './identifier-store.ts'
import { IN_PERSON, networksWithoutChallenge } from './pre-approval.ts'

const identifierParams = z.strictObject({ cred_id: uuid(), identifier_id: uuid() })
const profileParams = z.strictObject({ cred_id: uuid(), profile_id: uuid() })

/** As a request for approval names it. */
const credentialNamed =
  ({ db }: ActMeans, id: string) =>
  async () =>
    `the credential ${(await requireCredential(db, id, undefined)).kid}`

const grants = ({ body }: { body: { allow?: readonly string[] | undefined } }) => (body.allow ?? []).length > 0

export const EAB_GRANTS = endpointGroup('EAB credentials', {
  listIdentifiersOfEab: endpoint({
    route: 'GET /eab/{cred_id}/allowed-identifiers',
    permission: 'onboard',
    scope: 'credentials',
    summary: 'Lists what a credential grants to its accounts.',
    params: credentialParams,
    reply: { status: 200, schema: z.array(PlainIdentifier) },
    errors: ['not_found'],
    query: z.strictObject(placeParameters()),
    async handle({ params, query, author }, { db, pages }) {
      await requireCredential(db, params.cred_id, scopeOf(author))
      const page = await readPageOf(pagesOfCredential(db, params.cred_id), longPageRequest(query, pages))
      return { body: page.rows.map(plainIdentifierBody), next: nextOf(page) }
    },
  }),
  changeIdentifiersOfEab: endpoint({
    route: 'POST /eab/{cred_id}/allowed-identifiers',
    permission: 'administer',
    summary: 'Allows some identifiers to every account of a credential and withdraws others, all in one commit.',
    params: credentialParams,
    body: ChangedIdentifiers,
    reply: { status: 200, schema: IdentifierOutcomes },
    errors: ['not_found', 'conflict'],
    audit: 'eab.add_identifier',
    needsSession: async (request, context) => grants(request) && IN_PERSON.needsSession(request, context),
    recentSignIn: async (request, context) => grants(request) && IN_PERSON.recentSignIn(request, context),
    approval: async ({ params, body }, context) =>
      newNamesAct(
        credentialNamed(context, params.cred_id),
        readIdentifiers('allow', body.allow ?? []),
        context,
        grants({ body }) ? await networksWithoutChallenge(context.db, params.cred_id) : [],
      ),
    handle: async ({ params, body, author }, { audit }) => ({
      body: outcomesBody(await changeOfCredential(audit, author, params.cred_id, body)),
    }),
  }),
  addIdentifierToEab: endpoint({
    route: 'PUT /eab/{cred_id}/allowed-identifiers/{identifier_id}',
    permission: 'administer',
    summary: 'Allows an identifier to every account of a credential, as long as it is not taken back.',
    params: identifierParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.add_identifier',
    ...IN_PERSON,
    approval: async ({ params }, context) =>
      newNamesAct(
        credentialNamed(context, params.cred_id),
        await identifiersWith(context.db, params.identifier_id),
        context,
        await networksWithoutChallenge(context.db, params.cred_id),
      ),
    async handle({ params, author }, { audit }) {
      await giveNameToCredential(audit, author, params.identifier_id, params.cred_id)
      return {}
    },
  }),
  removeIdentifierFromEab: endpoint({
    route: 'DELETE /eab/{cred_id}/allowed-identifiers/{identifier_id}',
    permission: 'administer',
    summary: 'Takes it back. Grants to an account itself stay.',
    params: identifierParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.remove_identifier',
    async handle({ params, author }, { audit }) {
      await takeNameFromCredential(audit, author, params.identifier_id, params.cred_id)
      return {}
    },
  }),
  getCsrProfileOfEab: endpoint({
    route: 'GET /eab/{cred_id}/csr-profile',
    permission: 'onboard',
    scope: 'credentials',
    summary: 'Shows the CSR profile of a credential, or null.',
    params: credentialParams,
    reply: { status: 200, schema: CsrProfile.nullable() },
    errors: ['not_found'],
    async handle({ params, author }, { db }) {
      await requireCredential(db, params.cred_id, scopeOf(author))
      const profile = await findProfileOfCredential(db, params.cred_id)
      return { body: profile && csrProfileBody(profile) }
    },
  }),
  assignCsrProfileToEab: endpoint({
    route: 'PUT /eab/{cred_id}/csr-profile/{profile_id}',
    permission: 'administer',
    summary: 'Gives a CSR profile to every account of a credential that has none of its own.',
    params: profileParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.assign_csr_profile',
    async handle({ params, author }, { audit }) {
      await giveToCredential(audit, author, params.profile_id, params.cred_id)
      return {}
    },
  }),
  unassignCsrProfileFromEab: endpoint({
    route: 'DELETE /eab/{cred_id}/csr-profile/{profile_id}',
    permission: 'administer',
    summary: 'Takes it back. A profile of the account itself stays.',
    params: profileParams,
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'eab.unassign_csr_profile',
    async handle({ params, author }, { audit }) {
      await takeFromCredential(audit, author, params.profile_id, params.cred_id)
      return {}
    },
  }),
})
