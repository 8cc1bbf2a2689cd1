/**
 * Allowed identifiers say what accounts may request where allowlists are enforced. Such a name, or a CSR profile, is given to an
 * account or a binding credential, taken back and shown.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { notFound, requireFound } from '../../domain/admin-error.ts'
import { type AllowedIdentifier as AllowedIdentifierValue, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { scopeOf } from '../../domain/permissions.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import { newNamesAct } from '../approvals/acts.ts'
import { accountExists, namesOf } from '../certificates/account-list.ts'
import type { ActMeans, AdminContext } from '../context.ts'
import { credentialParams, requireCredential } from '../eab/credential-endpoints.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { csrProfileBody } from '../profiles/profile-endpoints.ts'
import { CsrProfile, findProfileOfAccount, findProfileOfCredential } from '../profiles/profile-store.ts'
import { line, uuid, whenSound, withTimes } from '../schemas.ts'
import {
  AllowedIdentifier,
  createIdentifier,
  findIdentifier,
  type IdentifierWithSome,
  PlainIdentifier,
  pagesOfAccount,
  pagesOfCredential,
  pagesOfIdentifiers,
  readIdentifiers,
  removeIdentifier,
} from './allowed-identifiers.ts'
import * as grants from './grants.ts'
import { type IdentifierOutcome, IN_PERSON, networksWithoutChallenge, WITHDRAWALS } from './grants.ts'

/** One statement for the accounts of all rows. */
async function identifierBodies(db: CommonQueryMethods, rows: readonly IdentifierWithSome[]) {
  const names = await namesOf(
    db,
    rows.flatMap(({ account_ids }) => account_ids),
  )
  return rows.map(
    (row): z.input<typeof AllowedIdentifier> => ({
      ...withTimes(row),
      account_names: row.account_ids.map((id) => names.get(id) ?? null),
    }),
  )
}

/** The identifier with this id; none where there is none. */
async function identifiersWith(db: CommonQueryMethods, id: string): Promise<AllowedIdentifierValue[]> {
  const found = await findIdentifier(db, id)
  return found ? [{ type: found.identifier_type, value: found.identifier_value }] : []
}

const MOST_CHANGED = 1_000
const texts = () => boundedArray(line(255), MOST_CHANGED).optional()

/** Changes for an account or a credential. */
const ChangedIdentifiers = z
  .strictObject({
    allow: texts().meta({ description: 'Names, `*.name`, addresses, networks; missing identifiers are made.' }),
    disallow: texts(),
  })
  .refine(({ allow = [], disallow = [] }) => allow.length + disallow.length > 0, {
    error: "has neither 'allow' nor 'disallow'",
    when: whenSound,
  })

const IdentifierOutcomes = z
  .array(
    z.strictObject({
      identifier: z.string(),
      outcome: z.enum(['allowed', ...WITHDRAWALS]).meta({
        description: '`absent`: it was not allowed. `kept`: the credential of the account still grants it.',
      }),
    }),
  )
  .meta({ id: 'IdentifierOutcomes' })

const outcomesBody = (outcomes: readonly IdentifierOutcome[]): z.input<typeof IdentifierOutcomes> =>
  outcomes.map(({ identifier, outcome }) => ({ identifier: identifier.value, outcome }))

const params = z.strictObject({ identifier_id: uuid() })
const throughCredential = (description: string) => ({
  eab_credential_id: z.uuid().nullable().meta({ description }),
})
const IdentifierOfAccount = z
  .strictObject({
    ...PlainIdentifier.shape,
    ...throughCredential('The credential that grants it; null for what is allowed to the account itself.'),
  })
  .meta({ id: 'IdentifierOfAccount' })
const CsrProfileOfAccount = z
  .strictObject({
    ...CsrProfile.shape,
    ...throughCredential('The credential through which it counts; null for a profile of the account itself.'),
  })
  .meta({ id: 'CsrProfileOfAccount' })

/** Names the account in a request for approval. */
const accountNamed = (id: string) => () => `the account ${id}`
const credentialNamed =
  ({ db }: ActMeans, id: string) =>
  async () =>
    `the credential ${(await requireCredential(db, id, undefined)).kid}`

const allowsSome = ({ body }: { body: { allow?: readonly string[] | undefined } }) => (body.allow ?? []).length > 0

/** @param idsOf gives the ids of thing and holder @returns two endpoints: PUT grants, DELETE takes back */
function association<P extends z.ZodType>(
  { given, taken, give, take }: grants.Grant,
  route: `/${string}`,
  params: P,
  idsOf: (params: z.output<P>) => [thing: string, holder: string],
) {
  type Further = Pick<Parameters<typeof endpoint<P>>[0], 'approval' | 'needsSession' | 'recentSignIn'>
  const shared = { permission: 'administer', params, reply: { status: 204 } } as const
  const handling =
    (work: typeof give) =>
    ({ params, author }: Parameters<Parameters<typeof endpoint<P>>[0]['handle']>[0], { audit }: AdminContext) =>
      withoutBody(work(audit, author, ...idsOf(params as z.output<P>)))
  return {
    put: (further?: Further) =>
      endpoint<P>({ route: `PUT ${route}`, ...shared, audit: given, ...further, handle: handling(give) }),
    delete: () => endpoint<P>({ route: `DELETE ${route}`, ...shared, audit: taken, handle: handling(take) }),
  }
}

const nameOfCredential = association(
  grants.NAME_OF_CREDENTIAL,
  '/eab/{cred_id}/allowed-identifiers/{identifier_id}',
  z.strictObject({ cred_id: uuid(), identifier_id: uuid() }),
  ({ identifier_id, cred_id }) => [identifier_id, cred_id],
)
const profileOfCredential = association(
  grants.PROFILE_OF_CREDENTIAL,
  '/eab/{cred_id}/csr-profile/{profile_id}',
  z.strictObject({ cred_id: uuid(), profile_id: uuid() }),
  ({ profile_id, cred_id }) => [profile_id, cred_id],
)
const nameOfAccount = association(
  grants.NAME_OF_ACCOUNT,
  '/allowed-identifiers/{identifier_id}/accounts/{account_id}',
  z.strictObject({ identifier_id: uuid(), account_id: uuid() }),
  ({ identifier_id, account_id }) => [identifier_id, account_id],
)
const profileOfAccount = association(
  grants.PROFILE_OF_ACCOUNT,
  '/csr-profiles/{profile_id}/accounts/{account_id}',
  z.strictObject({ profile_id: uuid(), account_id: uuid() }),
  ({ profile_id, account_id }) => [profile_id, account_id],
)

export const EAB_GRANTS = endpointGroup('EAB credentials', {
  listIdentifiersOfEab: endpoint({
    route: 'GET /eab/{cred_id}/allowed-identifiers',
    permission: 'onboard',
    scope: 'credentials',
    params: credentialParams,
    reply: { status: 200, schema: z.array(PlainIdentifier) },
    query: z.strictObject(placeParameters()),
    async handle({ params, query, author }, { db, pages }) {
      await requireCredential(db, params.cred_id, scopeOf(author))
      const { rows, next } = await readByCursor(query, pages, pagesOfCredential(db, params.cred_id))
      return { body: rows.map(withTimes), next }
    },
  }),
  changeIdentifiersOfEab: endpoint({
    route: 'POST /eab/{cred_id}/allowed-identifiers',
    permission: 'administer',
    params: credentialParams,
    body: ChangedIdentifiers,
    reply: { status: 200, schema: IdentifierOutcomes },
    audit: 'eab.add_identifier',
    needsSession: async (request, context) => allowsSome(request) && IN_PERSON.needsSession(request, context),
    recentSignIn: async (request, context) => allowsSome(request) && IN_PERSON.recentSignIn(request, context),
    approval: async ({ params, body }, context) =>
      newNamesAct(
        credentialNamed(context, params.cred_id),
        readIdentifiers('allow', body.allow ?? []),
        context,
        allowsSome({ body }) ? await networksWithoutChallenge(context.db, params.cred_id) : [],
      ),
    handle: async ({ params, body, author }, { audit }) => ({
      body: outcomesBody(await grants.changeNames(grants.NAME_OF_CREDENTIAL, audit, author, params.cred_id, body)),
    }),
  }),
  addIdentifierToEab: nameOfCredential.put({
    ...IN_PERSON,
    approval: async ({ params }, context) =>
      newNamesAct(
        credentialNamed(context, params.cred_id),
        await identifiersWith(context.db, params.identifier_id),
        context,
        await networksWithoutChallenge(context.db, params.cred_id),
      ),
  }),
  removeIdentifierFromEab: nameOfCredential.delete(),
  getCsrProfileOfEab: endpoint({
    route: 'GET /eab/{cred_id}/csr-profile',
    permission: 'onboard',
    scope: 'credentials',
    params: credentialParams,
    reply: { status: 200, schema: CsrProfile.nullable() },
    async handle({ params, author }, { db }) {
      await requireCredential(db, params.cred_id, scopeOf(author))
      const profile = await findProfileOfCredential(db, params.cred_id)
      return { body: profile && csrProfileBody(profile) }
    },
  }),
  assignCsrProfileToEab: profileOfCredential.put(),
  unassignCsrProfileFromEab: profileOfCredential.delete(),
})

export const ALLOWED_IDENTIFIERS = endpointGroup('Allowed identifiers', {
  listAllowedIdentifiers: endpoint({
    route: 'GET /allowed-identifiers',
    permission: 'administer',
    reply: { status: 200, schema: z.array(AllowedIdentifier) },
    query: z.strictObject({ value: line(255).optional(), ...placeParameters() }),
    async handle({ query: { value, ...place } }, { db, pages }) {
      const parsed = value === undefined ? undefined : parseAllowedIdentifier(value)
      if (parsed?.ok === false) return { body: [] }
      const { rows, next } = await readByCursor(place, pages, pagesOfIdentifiers(db, parsed?.identifier))
      return { body: await identifierBodies(db, rows), next }
    },
  }),
  createAllowedIdentifier: endpoint({
    route: 'POST /allowed-identifiers',
    permission: 'administer',
    body: z.strictObject({ type: z.enum(['dns', 'ip']), value: line(255) }),
    reply: { status: 201, schema: AllowedIdentifier },
    errors: ['conflict'],
    audit: 'identifier.create',
    async handle({ body, author }, { audit }) {
      const made = withTimes(await createIdentifier(audit, author, body))
      return { body: { ...made, credential_kids: [], account_ids: [], account_names: [], more_accounts: false } }
    },
  }),
  getAllowedIdentifier: endpoint({
    route: 'GET /allowed-identifiers/{identifier_id}',
    permission: 'administer',
    params,
    reply: { status: 200, schema: AllowedIdentifier },
    async handle({ params }, { db }) {
      const found = await findIdentifier(db, params.identifier_id)
      const [body] = await identifierBodies(db, found ? [found] : [])
      if (!body) throw notFound('allowed identifier')
      return { body }
    },
  }),
  deleteAllowedIdentifier: endpoint({
    route: 'DELETE /allowed-identifiers/{identifier_id}',
    permission: 'administer',
    params,
    reply: { status: 204 },
    audit: 'identifier.delete',
    handle: ({ params, author }, { audit }) => withoutBody(removeIdentifier(audit, author, params.identifier_id)),
  }),
  addAccountToIdentifier: nameOfAccount.put({
    approval: async ({ params }, context) =>
      newNamesAct(accountNamed(params.account_id), await identifiersWith(context.db, params.identifier_id), context),
  }),
  removeAccountFromIdentifier: nameOfAccount.delete(),
  listIdentifiersOfAccount: endpoint({
    route: 'GET /accounts/{account_id}/allowed-identifiers',
    permission: 'onboard',
    scope: 'accounts',
    params: z.strictObject({ account_id: uuid() }),
    reply: { status: 200, schema: z.array(IdentifierOfAccount) },
    query: z.strictObject(placeParameters()),
    async handle({ params, query, author }, { db, pages }) {
      requireFound(await accountExists(db, params.account_id, scopeOf(author)), 'account')
      const { rows, next } = await readByCursor(query, pages, pagesOfAccount(db, params.account_id))
      return { body: rows.map(withTimes), next }
    },
  }),
  changeIdentifiersOfAccount: endpoint({
    route: 'POST /accounts/{account_id}/allowed-identifiers',
    permission: 'administer',
    params: z.strictObject({ account_id: uuid() }),
    body: ChangedIdentifiers,
    reply: { status: 200, schema: IdentifierOutcomes },
    audit: 'identifier.add_account',
    approval: ({ params, body }, context) =>
      newNamesAct(accountNamed(params.account_id), readIdentifiers('allow', body.allow ?? []), context),
    handle: async ({ params, body, author }, { audit }) => ({
      body: outcomesBody(await grants.changeNames(grants.NAME_OF_ACCOUNT, audit, author, params.account_id, body)),
    }),
  }),
})

export const CSR_PROFILE_ASSIGNMENTS = endpointGroup('CSR profiles', {
  assignCsrProfile: profileOfAccount.put(),
  unassignCsrProfile: profileOfAccount.delete(),
  getCsrProfileOfAccount: endpoint({
    route: 'GET /accounts/{account_id}/csr-profile',
    permission: 'read_accounts',
    scope: 'accounts',
    params: z.strictObject({ account_id: uuid() }),
    reply: { status: 200, schema: CsrProfileOfAccount.nullable() },
    async handle({ params, author }, { db }) {
      requireFound(await accountExists(db, params.account_id, scopeOf(author)), 'account')
      const profile = await findProfileOfAccount(db, params.account_id)
      return { body: profile && csrProfileBody(profile) }
    },
  }),
})
