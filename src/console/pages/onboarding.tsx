/**
 * Onboarding of a team: one form makes its credential with all that the credential gives. Its hand-over sheet then has
 * all that the team needs, and shows whether its first certificate has arrived.
 */

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { AccountLink, Button, Copyable, CopyButton, Empty, Facts, Problem, Ready, Time } from '../components/basics.tsx'
import { saveFile } from '../components/csv.tsx'
import {
  Fields,
  type FormFields,
  initialOf,
  SelectField,
  useForm,
  useSubmit,
  type ValuesOf,
} from '../components/form.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { closeSecret, keepSecret, useKeptSecrets } from '../components/once-shown.tsx'
import { Page, Section } from '../components/page.tsx'
import { DAY_MS, isDay, linesOf, tagsOf } from '../format.ts'
import { endOfDay } from '../preferences.ts'
import { go, href, type PageProps } from '../router.ts'
import { currentSession } from '../stored-session.ts'
import { POLL_MS, useApi } from '../use-api.ts'
import {
  CHECK_ROOT,
  clientCommands,
  firstName,
  type HandOver,
  handOverText,
  KEY_WORD,
  pemOf,
  ROOT_FILE,
  saveRoots,
} from './client-commands.ts'

type Onboarding = Output<'getOnboarding'>
type Credential = Output<'getEabCredential'>

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

export function HandOverPage({ params }: PageProps) {
  const cred_id = params['credential'] ?? ''
  const loaded = useApi('getEabCredential', { params: { cred_id } }, { every: POLL_MS })
  const service = useApi('getOnboarding', {})
  const { data } = loaded
  return (
    <Page
      title={data ? `Hand-over: ${data.label || data.kid}` : 'Hand-over'}
      actions={data && <a href={href(`/eab/${cred_id}`)}>Its credential</a>}
    >
      <Ready loaded={loaded}>{(credential) => <Arrival credential={credential} />}</Ready>
      {data && <Ready loaded={service}>{(known) => <Sheet credential={data} service={known} />}</Ready>}
    </Page>
  )
}

/** Shows what has arrived: nothing, then the account, then its certificate. */
function Arrival({ credential: { account_id, account_name, used_at, revoked } }: { credential: Credential }) {
  if (revoked) return <p class="bar bad">This credential is revoked.</p>
  if (account_id === null)
    return (
      <p class="bar" role="status">
        Waiting for the first account. This page checks every five seconds.
      </p>
    )
  return (
    <FirstCertificate
      accountId={account_id}
      account={
        <>
          The account <AccountLink id={account_id} name={account_name} /> registered <Time at={used_at} />.
        </>
      }
    />
  )
}

function FirstCertificate({ accountId, account }: { accountId: string; account: ComponentChildren }) {
  const loaded = useApi('listCertificates', { query: { account_id: accountId, limit: '1' } }, { every: POLL_MS })
  return (
    <Ready loaded={loaded}>
      {([certificate]) =>
        certificate ? (
          <p class="bar good" role="status">
            <span>
              {account} Its certificate{' '}
              <a href={href(`/certificates/${certificate.serial_number}`)}>
                {certificate.san_values[0] ?? certificate.serial_number}
              </a>{' '}
              arrived <Time at={certificate.created_at} />.
            </span>
          </p>
        ) : (
          <p class="bar" role="status">
            <span>{account} Waiting for its first certificate.</span>
          </p>
        )
      }
    </Ready>
  )
}

interface SheetProps {
  credential: Credential
  service: Onboarding
}

function Sheet({ credential, service }: SheetProps) {
  const { id, kid, label } = credential
  const secret = useKeptSecrets().find((one) => one.id === id)
  const hmacKey = secret?.secrets[0]?.[1]
  const { commands, name, isNameKnown } = useCommands(credential, service, hmacKey)
  const [client, setClient] = useState('certbot')
  const chosen = commands.find((one) => one.client === client)
  const { directory_url: directoryUrl, roots, roots_url: rootsUrl } = service
  const sheet: HandOver = {
    title: `Certificates for ${label || kid}`,
    directoryUrl,
    kid,
    hmacKey,
    roots,
    rootsUrl,
    commands: chosen ? [chosen] : [],
  }
  const text = handOverText(sheet)
  return (
    <>
      {isNameKnown && (
        <div class="actions left">
          <CopyButton text={text} label="Copy everything" />
          <Button
            kind="small"
            text="Save as a file"
            onClick={() => saveFile(`${fileName(kid)}.txt`, 'text/plain', text)}
          />
        </div>
      )}
      <Section title="Access">
        <Facts
          rows={[
            ['Directory URL', <Copyable text={directoryUrl} />],
            ['Key identifier', <Copyable text={kid} />],
            ['HMAC key', hmacKey === undefined ? 'was shown once' : <Copyable text={hmacKey} />],
          ]}
        />
        {secret && (
          <div class="actions left">
            <Button kind="primary" text="I have saved the key" onClick={() => closeSecret(id)} />
            <span class="quiet">
              It cannot be read again. It stays here, also after a reload, until you press this.
            </span>
          </div>
        )}
      </Section>
      <Roots service={service} />
      <Section title="Commands">
        <SelectField
          label="Client"
          value={client}
          onChange={setClient}
          options={commands.map((one) => [one.client, `${one.client} (${one.place})`])}
        />
        {chosen && isNameKnown && <Copyable block text={chosen.text} />}
        {hmacKey === undefined && <p class="quiet">Put the HMAC key in the place of {KEY_WORD}.</p>}
        {isNameKnown && name === undefined && (
          <p class="quiet">Put the name of the machine in the place of host.example.com.</p>
        )}
      </Section>
    </>
  )
}

const fileName = (kid: string) => kid.replaceAll(/[^\w.-]+/g, '-').slice(0, 80) || 'credential'

/** Commands for the first name that the credential allows. Nothing is offered to copy before it is known: it would name the example. */
function useCommands({ id, kid }: Credential, service: Onboarding, hmacKey: string | undefined) {
  const allowed = useApi('listIdentifiersOfEab', { params: { cred_id: id }, query: { limit: '20' } })
  const name = firstName((allowed.data ?? []).map(({ identifier_value }) => identifier_value))
  const { directory_url: directoryUrl, roots } = service
  const isNameKnown = allowed.data !== undefined || allowed.error !== undefined
  return { commands: clientCommands({ directoryUrl, kid, hmacKey, name, rootPem: pemOf(roots) }), name, isNameKnown }
}

function Roots({ service: { roots, roots_url: rootsUrl } }: { service: Onboarding }) {
  if (roots.length === 0)
    return (
      <Section title="Root certificate">
        <Empty title="Not known here">
          <p>The chain of the issuer ends below its root. Give the root to the team by another way, as {ROOT_FILE}.</p>
        </Empty>
      </Section>
    )
  const pem = pemOf(roots)
  return (
    <Section title="Root certificate">
      {roots.map(({ subject, fingerprint, not_after }) => (
        <Facts
          key={fingerprint}
          rows={[
            ['Subject', subject],
            ['SHA-256', <Copyable text={fingerprint} />],
            ['Expires', <Time at={not_after} />],
          ]}
        />
      ))}
      <div class="actions left">
        <Button
          kind="small"
          text="Download"
          onClick={() => saveFile('chancery-root.pem', 'application/x-pem-file', pem)}
        />
      </div>
      <p>The commands below expect it as {ROOT_FILE}. As root, this writes it:</p>
      <Copyable block text={saveRoots(pem)} />
      {rootsUrl !== null && (
        <>
          <p>Or fetch it, and compare its fingerprint with the one above:</p>
          <Copyable block text={`curl -fsS ${rootsUrl} -o ${ROOT_FILE}\n${CHECK_ROOT}`} />
        </>
      )}
    </Section>
  )
}
