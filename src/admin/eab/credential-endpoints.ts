/**
 * `/eab`: binding credentials (RFC 8555 §7.3.4), seen, and revoked with all that depends on them. `/onboarding`: what a team
 * needs beside its credential, and what a credential may give it.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { formatName } from '../../shared/pki/name.ts'
import { decodePem, encodePem } from '../../shared/pki/pem.ts'
import { isInScope } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { withAccountName, withAccountNames } from '../certificates/account-list.ts'
import type { AdminContext } from '../context.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { pagesOfProfiles } from '../profiles/profile-store.ts'
import { CREDENTIAL_FILTERS } from '../resources/accounts.ts'
import { parametersOf, time, timestamp, uuid, withTimes } from '../schemas.ts'
import {
  type CredentialRow,
  EabCascade,
  EabCredential,
  findCredential,
  hasForeignAccounts,
  lockCredential,
  pagesOfCredentials,
  previewRevocation,
  type Revocation,
  revokeCredential,
} from './credential-store.ts'

export const credentialBody = (
  row: CredentialRow & { account_name: string | null },
): z.input<typeof EabCredential> => ({ ...withTimes(row), label: row.label ?? '' })

export const credentialParams = z.strictObject({ cred_id: uuid() })

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
    permission: 'onboard',
    scope: 'credentials',
    reply: { status: 200, schema: z.array(EabCredential) },
    query: z.strictObject({ ...parametersOf(CREDENTIAL_FILTERS), ...placeParameters() }),
    async handle({ query: { limit, offset, cursor, ...chosen }, author }, { db, pages }) {
      const filter = { ...chosen, scope: scopeOf(author) }
      const { rows, next } = await readByCursor({ limit, offset, cursor }, pages, pagesOfCredentials(db, filter))
      return { body: (await withAccountNames(db, rows)).map(credentialBody), next }
    },
  }),
  getEabCredential: endpoint({
    route: 'GET /eab/{cred_id}',
    permission: 'onboard',
    scope: 'credentials',
    params: credentialParams,
    reply: { status: 200, schema: EabCredential },
    handle: async ({ params, author }, { db }) => ({
      body: credentialBody(await withAccountName(db, await requireCredential(db, params.cred_id, scopeOf(author)))),
    }),
  }),
  getCascadeOfEab: endpoint({
    route: 'GET /eab/{cred_id}/cascade',
    permission: 'onboard',
    scope: 'credentials',
    params: credentialParams,
    reply: { status: 200, schema: EabCascade },
    async handle({ params, author }, { db }) {
      await requireWithAccounts(db, params.cred_id, scopeOf(author))
      return { body: await previewRevocation(db, params.cred_id) }
    },
  }),
  revokeEabCredential: endpoint({
    route: 'POST /eab/{cred_id}/revoke',
    permission: 'onboard',
    scope: 'credentials',
    params: credentialParams,
    reply: { status: 200, schema: RevokedEabCredential },
    audit: 'eab.revoke',
    async handle({ params, author }, context) {
      const { credential, revokedAccounts } = await revoke(context, author, params.cred_id)
      const revoked_account_ids = revokedAccounts.slice(0, MOST_NAMED)
      const shown = credentialBody(await withAccountName(context.db, credential))
      return { body: { ...shown, revoked_accounts: revokedAccounts.length, revoked_account_ids } }
    },
  }),
})

export async function requireCredential(db: CommonQueryMethods, id: string, scope: Scope): Promise<CredentialRow> {
  return requireFound(await findCredential(db, id, scope), 'credential')
}

/**
 * A registrar revokes no account of others: the credential with all its tags, and every account registered with it, must be
 * in its scope.
 * @throws AdminError not_found, conflict
 */
async function requireWithAccounts(db: CommonQueryMethods, id: string, scope: Scope): Promise<void> {
  const { tags } = await requireCredential(db, id, scope)
  if (scope === undefined) return
  if (tags.every((tag) => scope.includes(tag)) && !(await hasForeignAccounts(db, id, scope))) return
  throw new AdminError(
    'conflict',
    'the credential is also of accounts or tags that you do not look after; ask an administrator',
  )
}

/** Revokes it with its accounts and their authorizations. It may be repeated; each time is audited. */
async function revoke({ audit, events }: AdminContext, actor: Actor, id: string): Promise<Revocation> {
  const revocation = await audit.transaction(actor, async (tx, note) => {
    const scope = scopeOf(actor)
    // The lock keeps accounts from registering meanwhile.
    if (scope) await lockCredential(tx, id)
    await requireWithAccounts(tx, id, scope)
    const revocation = requireFound(await revokeCredential(tx, id), 'credential')
    const { credential, linkedAccounts, revokedAccounts } = revocation
    note('eab.revoke', {
      eab_id: id,
      kid: credential.kid,
      linked_accounts: linkedAccounts,
      revoked_accounts: revokedAccounts,
    })
    return revocation
  })
  events.credentials.accountsRevoked(revocation.revokedAccounts.length)
  return revocation
}

const MOST_PROFILES = 200

const Onboarding = z
  .strictObject({
    directory_url: z.string(),
    roots_url: z
      .string()
      .nullable()
      .meta({ description: 'Where clients fetch the roots; null where none are served.' }),
    roots: z
      .array(z.strictObject({ subject: z.string(), fingerprint: z.string(), not_after: timestamp(), pem: z.string() }))
      .meta({
        description: 'Of the issuers that sign now, and those of `api.roots_file`; none where no root is known.',
      }),
    ca_profiles: z.array(z.string()),
    csr_profiles: z
      .array(z.strictObject({ id: z.uuid(), name: z.string() }))
      .meta({ description: `The newest, at most ${MOST_PROFILES}.` }),
    eab_required: z.boolean(),
    allowlist_enforced: z.boolean().meta({ description: 'Whether accounts get certificates for allowed names only.' }),
  })
  .meta({ id: 'Onboarding' })

export const ONBOARDING = endpointGroup('EAB credentials', {
  getOnboarding: endpoint({
    route: 'GET /onboarding',
    permission: 'onboard',
    scope: 'credentials',
    reply: { status: 200, schema: Onboarding },
    handle: async ({ author }, context) => ({ body: await onboardingBody(context, scopeOf(author)) }),
  }),
})

async function onboardingBody({ db, policy, ask }: AdminContext, scope: Scope): Promise<z.input<typeof Onboarding>> {
  const { settings } = await ask('settings')
  const value = (key: string) => settings.find((one) => one.key === key)?.value
  const base = `${String(value('server.external_url')).replace(/\/$/, '')}${value('api.base_path') ?? ''}`
  const rootsPath = value('api.roots_path') ?? null
  const roots = decodePem(await ask('roots')).map(({ der }) => parseCertificate(der))
  const { rows } = await pagesOfProfiles(db)(undefined, MOST_PROFILES)
  const granted = await grantedProfiles(db, scope)
  const profiles = scope === undefined ? rows : rows.filter(({ id }) => granted.has(id))
  return {
    directory_url: `${base}${value('acme.paths.directory')}`,
    roots_url: rootsPath === null ? null : `${base}${rootsPath}`,
    roots: roots.map((root) => ({
      subject: formatName(root.tbs.subject),
      fingerprint: fingerprintSha256(root.der),
      not_after: time(root.tbs.notAfter),
      pem: encodePem('CERTIFICATE', root.der),
    })),
    ca_profiles: [...policy.caProfiles],
    csr_profiles: profiles.map(({ id, name }) => ({ id, name })),
    eab_required: value('acme.eab_required') === true,
    allowlist_enforced: value('security.identifier_policy.enforce_account_allowlist') === true,
  }
}

const ProfileId = z.object({ id: z.string() })

/** A registrar may give the profiles of credentials in its scope, and no others. */
async function grantedProfiles(db: CommonQueryMethods, scope: Scope): Promise<ReadonlySet<string>> {
  const rows = await db.any(rowsOf(ProfileId)`
    SELECT DISTINCT p.csr_profile_id AS id FROM eab_csr_profiles p JOIN eab_credentials e ON e.id = p.eab_credential_id
     WHERE ${isInScope(sql.fragment`e`, scope)}`)
  return new Set(rows.map(({ id }) => id))
}
