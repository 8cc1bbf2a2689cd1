/** Onboarding: one form for a team, which makes its credential with all that the credential gives. */

import { call, type Input, type Output } from '../api.ts'
import { Problem, Ready } from '../components/basics.tsx'
import { DayField, SelectField, TextField, useForm, useSubmit } from '../components/form.tsx'
import { keepSecret } from '../components/once-shown.tsx'
import { Page } from '../components/page.tsx'
import { tagsOf } from '../components/role-fields.tsx'
import { isDay } from '../format.ts'
import { go } from '../router.ts'
import { useSession } from '../stored-session.ts'
import { endOfDay } from '../time-zone.ts'
import { useApi } from '../use-api.ts'
import { linesOf } from './profile-fields.ts'

type Onboarding = Output<'getOnboarding'>

export function OnboardingPage() {
  const loaded = useApi('getOnboarding', {})
  return (
    <Page title="Onboard a team">
      <p class="quiet">
        Makes an EAB credential for the team. The next page has all that the team needs, and shows when its first
        certificate arrives.
      </p>
      <Ready loaded={loaded}>{(service) => <TeamForm service={service} />}</Ready>
    </Page>
  )
}

/** A credential that nobody uses should not stay open. */
const USUAL_DAYS = 30
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)

function useTeam() {
  const { user } = useSession()
  const { values, field } = useForm({
    team: '',
    kid: '',
    tags: user?.role === 'registrar' ? user.scope.join(' ') : '',
    names: '',
    profile: '',
    csrProfile: '',
    networks: '',
    maxUses: '',
    expires: inDays(USUAL_DAYS),
  })
  const proposed = slugOf(values.team)
  const [kid, tags] = [values.kid || proposed, values.tags || proposed]
  const { submit, error, isBusy } = useSubmit(async () => {
    const made = await call('createEabCredential', { body: bodyOf({ ...values, kid, tags }) })
    const place = `/onboarding/${made.id}`
    const secrets = [['HMAC key', made.hmac_key]] as const
    keepSecret({ id: made.id, place, title: `The key of ${made.label || made.kid}`, secrets })
    go(place)
  })
  return { field, kid, tags, submit, error, isBusy }
}

function TeamForm({ service }: { service: Onboarding }) {
  const form = useTeam()
  const { submit, error, isBusy } = form
  return (
    <form onSubmit={submit} class="narrow">
      <WhoItIs {...form} />
      <WhatItGets {...form} service={service} />
      <UntilWhen {...form} />
      <Problem error={error} />
      <button type="submit" class="primary" disabled={isBusy}>
        {isBusy ? 'Onboarding …' : 'Onboard'}
      </button>
    </form>
  )
}

type FieldsProps = Pick<ReturnType<typeof useTeam>, 'field' | 'kid' | 'tags' | 'error'>

const WhoItIs = ({ field, kid, tags, error }: FieldsProps) => (
  <>
    <TextField
      label="Team"
      help="Its name in lists; clients do not see it."
      required
      {...field('team', error, 'label')}
    />
    <TextField
      label="Key identifier"
      help="Clients send it. It cannot be changed later."
      required
      {...field('kid', error)}
      value={kid}
    />
    <TextField
      label="Tags"
      help="Accounts of the team get them. Registrars with one of these tags look after the team."
      {...field('tags', error)}
      value={tags}
    />
  </>
)

const WhatItGets = ({ field, error, service }: FieldsProps & { service: Onboarding }) => (
  <>
    <TextField
      label="Names"
      help="One a line: host.example.com, *.example.com for the name and all below, 10.1.0.0/16."
      rows={4}
      {...field('names', error, 'allowed_identifiers')}
    />
    {!service.allowlist_enforced && (
      <p class="bar warn">
        Names are not enforced: security.identifier_policy.enforce_account_allowlist is off, so the team may also
        request other names.
      </p>
    )}
    <SelectField
      label="CA profile"
      options={[['', 'All'], ...service.ca_profiles.map((name) => [name, name] as const)]}
      {...field('profile', error, 'profiles')}
    />
    <SelectField
      label="CSR profile"
      options={[['', 'None'], ...service.csr_profiles.map(({ id, name }) => [id, name] as const)]}
      {...field('csrProfile', error, 'csr_profile_id')}
    />
  </>
)

const UntilWhen = ({ field, error }: FieldsProps) => (
  <>
    <TextField
      label="Allowed networks"
      help="From which clients may register, one a line, such as 10.1.0.0/16. Empty: all."
      rows={2}
      {...field('networks', error, 'allowed_networks')}
    />
    <TextField
      label="Maximum accounts"
      help="One a machine. Empty: acme.eab_reusable decides."
      type="number"
      {...field('maxUses', error, 'max_uses')}
    />
    <DayField
      label="Expires"
      help="At the end of that day no further account registers. Accounts stay. Empty: never."
      {...field('expires', error, 'expires_at')}
    />
  </>
)

type Wanted = Readonly<
  Record<'team' | 'kid' | 'tags' | 'names' | 'profile' | 'csrProfile' | 'networks' | 'maxUses' | 'expires', string>
>

function bodyOf({ team, kid, tags, names, profile, csrProfile, networks, maxUses, expires }: Wanted) {
  const allowed_identifiers = linesOf(names)
  const allowed_networks = linesOf(networks)
  const body: Input<'createEabCredential'>['body'] = {
    kid,
    label: team.trim(),
    tags: tagsOf(tags),
    ...(allowed_identifiers && { allowed_identifiers }),
    ...(profile && { profiles: [profile] }),
    ...(csrProfile && { csr_profile_id: csrProfile }),
    ...(allowed_networks && { allowed_networks }),
    ...(maxUses && { max_uses: Number(maxUses) }),
    ...(expires && { expires_at: isDay(expires) ? endOfDay(expires) : expires }),
  }
  return body
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
