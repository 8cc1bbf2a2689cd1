/** Onboarding: one form for a team, which makes its credential with all that the credential gives. */

import { call, type Output } from '../api.ts'
import { Problem } from '../components/basics.tsx'
import { Fields, type FormFields, initialOf, useForm, useSubmit, type ValuesOf } from '../components/form.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { keepSecret } from '../components/once-shown.tsx'
import { DAY_MS, isDay, linesOf, tagsOf } from '../format.ts'
import { endOfDay } from '../preferences.ts'
import { go } from '../router.ts'
import { currentSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'

type Onboarding = Output<'getOnboarding'>

export function OnboardingPage() {
  const loaded = useApi('getOnboarding', {})
  return (
    <LoadedPage
      title="Onboard a team"
      about="Makes an EAB credential for the team. The next page has all that the team needs, and shows when its first certificate arrives."
      loaded={loaded}
    >
      {(service) => <TeamForm service={service} />}
    </LoadedPage>
  )
}

/** A credential that nobody uses should not stay open. */
const USUAL_DAYS = 30
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)

function fieldsOf({ allowlist_enforced, ca_profiles, csr_profiles }: Onboarding) {
  const { user } = currentSession()
  return {
    label: { label: 'Team', help: 'Its name in lists; clients do not see it.', required: true },
    kid: { label: 'Key identifier', help: 'Clients send it. It cannot be changed later.', required: true },
    tags: {
      label: 'Tags',
      help: 'Accounts of the team get them. Registrars with one of these tags look after the team.',
      value: user?.role === 'registrar' ? user.scope.join(' ') : '',
    },
    allowed_identifiers: {
      label: 'Names',
      help: 'One a line: host.example.com, *.example.com for the name and all below, 10.1.0.0/16.',
      rows: 4,
      below: !allowlist_enforced && (
        <p class="bar warn">
          Names are not enforced: security.identifier_policy.enforce_account_allowlist is off, so the team may also
          request other names.
        </p>
      ),
    },
    profiles: { label: 'CA profile', options: [['', 'All'], ...ca_profiles.map((name) => [name, name] as const)] },
    csr_profile_id: {
      label: 'CSR profile',
      options: [['', 'None'], ...csr_profiles.map(({ id, name }) => [id, name] as const)],
    },
    allowed_networks: {
      label: 'Allowed networks',
      help: 'From which clients may register, one a line, such as 10.1.0.0/16. Empty: all.',
      rows: 2,
    },
    max_uses: {
      label: 'Maximum accounts',
      help: 'One a machine. Empty: acme.eab_reusable decides.',
      type: 'number',
    },
    expires_at: {
      label: 'Expires',
      help: 'At the end of that day no further account registers. Accounts stay. Empty: never.',
      type: 'date',
      value: inDays(USUAL_DAYS),
    },
  } as const satisfies FormFields
}

type Team = ValuesOf<ReturnType<typeof fieldsOf>>

function TeamForm({ service }: { service: Onboarding }) {
  const fields = fieldsOf(service)
  const { values, change } = useForm(initialOf(fields))
  const proposed = slugOf(values.label)
  const team: Team = { ...values, kid: values.kid || proposed, tags: values.tags || proposed }
  const { submit, error, isBusy } = useSubmit(async () => {
    const { id, label, kid, hmac_key } = await call('createEabCredential', { body: bodyOf(team) })
    const place = `/onboarding/${id}`
    keepSecret({ id, place, title: `The key of ${label || kid}`, secrets: [['HMAC key', hmac_key]] })
    go(place)
  })
  return (
    <form onSubmit={submit} class="narrow">
      <Fields fields={fields} values={team} onChange={change} error={error} />
      <Problem error={error} />
      <button type="submit" class="primary" disabled={isBusy}>
        {isBusy ? 'Onboarding …' : 'Onboard'}
      </button>
    </form>
  )
}

function bodyOf({ kid, label, tags, profiles, csr_profile_id, max_uses, expires_at, ...typed }: Team) {
  const allowed_identifiers = linesOf(typed.allowed_identifiers)
  const allowed_networks = linesOf(typed.allowed_networks)
  return {
    kid,
    label: label.trim(),
    tags: tagsOf(tags),
    ...(allowed_identifiers && { allowed_identifiers }),
    ...(profiles && { profiles: [profiles] }),
    ...(csr_profile_id && { csr_profile_id }),
    ...(allowed_networks && { allowed_networks }),
    ...(max_uses && { max_uses: Number(max_uses) }),
    ...(expires_at && { expires_at: isDay(expires_at) ? endOfDay(expires_at) : expires_at }),
  }
}

/** A tag and a key identifier for a name: lower-case letters, digits and hyphens. */
const slugOf = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z\d]+/g, '-')
    .slice(0, 40)
    .replaceAll(/^-|-$/g, '')
