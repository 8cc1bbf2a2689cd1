/** `/onboarding`: what a team needs beside its credential, and what a credential may give it. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { formatName } from '../../shared/pki/name.ts'
import { decodePem, encodePem } from '../../shared/pki/pem.ts'
import { isInScope } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AdminContext } from '../context.ts'
import { pagesOfProfiles } from '../profiles/profile-store.ts'
import { time, timestamp } from '../schemas.ts'

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
    summary: 'Shows what clients need to know of this service, and the profiles that a credential may give.',
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
