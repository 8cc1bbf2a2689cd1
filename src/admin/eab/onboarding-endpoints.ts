/** `/onboarding`: what a team is told beside its credential, and what a credential may give it. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { type Certificate, fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { isIssuedBy } from '../../shared/pki/certification-path.ts'
import { formatName } from '../../shared/pki/name.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { rowsOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AdminContext, SigningIssuer } from '../context.ts'
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
      .meta({ description: 'Roots of the issuers that sign now; none where their chains do not contain it.' }),
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
    handle: async (_request, context) => ({ body: await onboardingBody(context) }),
  }),
})

async function onboardingBody({ db, policy, ask, signingIssuers }: AdminContext): Promise<z.input<typeof Onboarding>> {
  const { settings } = await ask('settings')
  const value = (key: string) => settings.find((one) => one.key === key)?.value
  const base = `${String(value('server.external_url')).replace(/\/$/, '')}${value('api.base_path') ?? ''}`
  const rootsPath = value('api.roots_path') ?? null
  // An instance without a signer has no issuers; then those of the database count.
  const signing = await signingIssuers().catch(() => [])
  const profiles = await pagesOfProfiles(db)(undefined, MOST_PROFILES)
  return {
    directory_url: `${base}${value('acme.paths.directory')}`,
    roots_url: rootsPath === null ? null : `${base}${rootsPath}`,
    roots: (await listRoots(db, signing)).map((root) => ({
      subject: formatName(root.tbs.subject),
      fingerprint: fingerprintSha256(root.der),
      not_after: time(root.tbs.notAfter),
      pem: encodePem('CERTIFICATE', root.der),
    })),
    ca_profiles: [...policy.caProfiles],
    csr_profiles: profiles.rows.map(({ id, name }) => ({ id, name })),
    eab_required: value('acme.eab_required') === true,
    allowlist_enforced: value('security.identifier_policy.enforce_account_allowlist') === true,
  }
}

const Chain = z.object({ fingerprint: z.string(), top: z.instanceof(Buffer) })
const MOST_ISSUERS = 100

/** Only certificates that have signed themselves: clients would trust an intermediate for ever. */
async function listRoots(db: CommonQueryMethods, signing: readonly SigningIssuer[]): Promise<Certificate[]> {
  const rows = await db.any(rowsOf(Chain)`
    SELECT encode(fingerprint, 'hex') AS fingerprint, chain[cardinality(chain)] AS top
      FROM issuers ORDER BY created_at DESC LIMIT ${MOST_ISSUERS}`)
  const current = new Set(signing.map(({ certificate }) => fingerprintSha256(Buffer.from(certificate))))
  const tops = rows.filter(({ fingerprint }) => current.size === 0 || current.has(fingerprint)).map(({ top }) => top)
  const distinct = new Map(tops.map((der) => [fingerprintSha256(der), parseCertificate(der)]))
  return [...distinct.values()].filter((root) => root.tbs.isCa && isIssuedBy(root, root))
}
