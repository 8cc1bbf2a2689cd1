/** External account binding (RFC 8555 §7.3.4): the credentials, and one with its grants and its revocation. */

import { call, type Input, type Output } from '../api.ts'
import { AccountLink, Badge, ButtonLink, Copyable, Empty, Facts, Ready, Tags, Time } from '../components/basics.tsx'
import type { CsvFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { DayField, type Filter, TextField, useForm } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { type KeptSecret, keepSecret, OnceShown } from '../components/once-shown.tsx'
import { Page, tell } from '../components/page.tsx'
import { tagsOf } from '../components/role-fields.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { currentSession } from '../stored-session.ts'
import { endOfDay } from '../time-zone.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'
import { clientCommands, ROOT_FILE } from './client-commands.ts'
import { CredentialTags } from './credential-tags.tsx'
import { GrantedIdentifiers, GrantedProfile } from './grants.tsx'
import { pemOf } from './hand-over-text.ts'
import { linesOf } from './profile-fields.ts'

type Credential = Output<'listEabCredentials'>[number]
type WithKey = Output<'createEabCredential'>
const PLACE = '/eab'

function CredentialState({ credential }: { credential: Credential }) {
  const { revoked, used, expires_at } = credential
  if (revoked) return <Badge tone="bad">revoked</Badge>
  if (expires_at !== null && Date.parse(expires_at) < Date.now()) return <Badge>expired</Badge>
  return used ? <Badge tone="good">used</Badge> : <Badge>not used yet</Badge>
}

const COLUMNS: readonly Column<Credential>[] = [
  {
    head: 'Key identifier',
    kind: 'wide',
    by: ({ kid }) => kid,
    cell: ({ id, kid }) => <a href={href(`/eab/${id}`)}>{kid}</a>,
  },
  { head: 'Label', by: ({ label }) => label, cell: ({ label }) => label },
  { head: 'Tags', cell: ({ tags }) => <Tags tags={tags} /> },
  { head: 'Status', cell: (credential) => <CredentialState credential={credential} /> },
  {
    head: 'Uses',
    kind: 'fixed',
    cell: ({ uses, max_uses }) => (max_uses === null ? uses : `${uses} / ${max_uses}`),
  },
  timeColumn('Expires', 'expires_at'),
  timeColumn('Created', 'created_at', { relative: false }),
]

const CSV: CsvFile<Credential> = {
  name: 'eab-credentials.csv',
  members: [
    'id',
    'kid',
    'label',
    'tags',
    'used',
    'used_at',
    'revoked',
    'expires_at',
    'uses',
    'max_uses',
    'account_id',
    'account_name',
    'allowed_networks',
    'profiles',
    'created_at',
  ],
}

const STATUSES = [
  ['open', 'Active'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
] as const
const FILTERS: readonly Filter[] = [
  { name: 'name', label: 'Key identifier or label' },
  { name: 'tag', label: 'Tag' },
  { name: 'status', label: 'Status', options: STATUSES },
]

export function EabPage({ query, entry }: PageProps) {
  const list = useList('listEabCredentials', { query } as Input<'listEabCredentials'>, entry)
  const create = (
    <CreateCredential
      onMade={(credential) => {
        keepSecret({
          id: credential.id,
          place: PLACE,
          title: `The credential ${credential.kid}`,
          secrets: [
            ['Key identifier', credential.kid],
            ['HMAC key', credential.hmac_key],
          ],
        })
        list.reload()
      }}
    />
  )
  return (
    <ListPage
      title="EAB credentials"
      actions={
        <>
          {create}
          <ButtonLink needs="createEabCredential" to={href('/onboarding')}>
            Onboard a team
          </ButtonLink>
        </>
      }
      about="A client registers its account with a credential. The grants of a credential apply to all its accounts."
      query={query}
      filters={FILTERS}
      list={list}
      columns={COLUMNS}
      csv={CSV}
      empty={
        <Empty title="No credentials yet">
          <ol>
            <li>Create a credential; its key is shown once.</li>
            <li>Copy a ready command for certbot, lego, acme.sh, Caddy or cert-manager, and run it on the machine.</li>
            <li>Its account appears under Accounts, and the first certificate under Certificates.</li>
          </ol>
          {create}
        </Empty>
      }
    >
      <OnceShown place={PLACE}>{(secret) => <ReadyCommands secret={secret} />}</OnceShown>
    </ListPage>
  )
}

/** A registrar of one tag makes credentials with it. */
function currentTags(): string {
  const scope = currentSession().user?.scope ?? []
  return scope.length === 1 ? (scope[0] ?? '') : ''
}

function CreateCredential({ onMade }: { onMade: (made: WithKey) => void }) {
  const { values, field, reset } = useForm({
    kid: '',
    label: '',
    tags: currentTags(),
    maxUses: '',
    expires: '',
    networks: '',
  })
  const create = async () => {
    const { kid, label, tags, maxUses, expires, networks } = values
    const allowed_networks = linesOf(networks)
    const body = {
      kid,
      tags: tagsOf(tags),
      ...(label && { label }),
      ...(maxUses && { max_uses: Number(maxUses) }),
      ...(expires && { expires_at: endOfDay(expires) }),
      ...(allowed_networks && { allowed_networks }),
    }
    onMade(await call('createEabCredential', { body }))
  }
  return (
    <Action needs="createEabCredential" kind="primary" action="Create a credential" onOpen={reset} onConfirm={create}>
      {(error) => (
        <>
          <TextField
            label="Key identifier"
            help="A name for the client to send, such as the name of a team or a machine."
            required
            {...field('kid', error)}
          />
          <TextField label="Label" help="For you; clients do not see it." {...field('label', error)} />
          <TextField
            label="Tags"
            help="Whose it is, with commas between. Its accounts get them, and registrars of a tag look after them."
            {...field('tags', error)}
          />
          <TextField
            label="Maximum accounts"
            help="Empty: acme.eab_reusable decides."
            type="number"
            {...field('maxUses', error, 'max_uses')}
          />
          <DayField label="Expires" help="At the end of that day." {...field('expires', error, 'expires_at')} />
          <TextField
            label="Allowed networks"
            help="One a line, such as 10.1.0.0/16. Empty: all."
            rows={2}
            {...field('networks', error, 'allowed_networks')}
          />
        </>
      )}
    </Action>
  )
}

function ReadyCommands({ secret: { secrets } }: { secret: KeptSecret }) {
  const loaded = useApi('getOnboarding', {})
  const [kid = '', hmacKey] = secrets.map(([, text]) => text)
  return (
    <>
      <p>The commands expect the root certificate as {ROOT_FILE}. Put the name of the machine into them.</p>
      <Ready loaded={loaded}>
        {({ directory_url: directoryUrl, roots }) =>
          clientCommands({ directoryUrl, kid, hmacKey, rootPem: pemOf(roots) }).map(({ client, place, text }) => (
            <details key={client}>
              <summary>
                {client} <span class="quiet">{place}</span>
              </summary>
              <Copyable text={text} block />
            </details>
          ))
        }
      </Ready>
    </>
  )
}

export function EabCredentialPage({ params }: PageProps) {
  const cred_id = params['credential'] ?? ''
  const loaded = useApi('getEabCredential', { params: { cred_id } })
  const { data } = loaded
  return (
    <Page
      title={data?.kid ?? 'EAB credential'}
      actions={
        data &&
        !data.revoked && (
          <>
            <CredentialTags key={data.tags.join()} credential={data} onChange={loaded.reload} />
            <Action
              needs="revokeEabCredential"
              kind="danger"
              action="Revoke"
              title={`Revoke ${data.kid}`}
              consequence={<Cascade id={cred_id} />}
              typed={data.kid}
              onConfirm={async () => {
                await call('revokeEabCredential', { params: { cred_id } })
                tell('The credential and its accounts are revoked.')
                loaded.reload()
              }}
            />
          </>
        )
      }
    >
      <Ready loaded={loaded}>
        {(credential) => (
          <Facts
            rows={[
              ['Status', <CredentialState key="state" credential={credential} />],
              ['Label', credential.label],
              ['Tags', <Tags key="tags" tags={credential.tags} />],
              ['Id', <Copyable key="id" text={credential.id} />],
              ['Uses', String(credential.uses)],
              ['Maximum accounts', credential.max_uses ?? 'set by acme.eab_reusable'],
              ['CA profiles', credential.profiles?.join(', ')],
              ['Allowed networks', credential.allowed_networks?.join(', ')],
              ['Pre-approved networks', credential.preapproved_networks?.join(', ')],
              ['Expires', <Time key="expires" at={credential.expires_at} />],
              ['First used', <Time key="used" at={credential.used_at} />],
              ['Created', <Time key="created" at={credential.created_at} />],
              credential.account_id !== null && [
                'Last account',
                <AccountLink key="account" id={credential.account_id} name={credential.account_name} />,
              ],
            ]}
          />
        )}
      </Ready>
      {data && (
        <>
          <p>
            <a href={href('/accounts', { eab_kid: data.kid })}>Accounts of this credential</a>
          </p>
          <p>
            <a href={href(`/onboarding/${cred_id}`)}>Hand-over sheet with commands for clients</a>
          </p>
          <div class="columns">
            <GrantedIdentifiers owner="credential" id={cred_id} />
            <GrantedProfile owner="credential" id={cred_id} />
          </div>
        </>
      )}
    </Page>
  )
}

/** Accounts, orders and certificates are counted before the button can be pressed. */
function Cascade({ id }: { id: string }) {
  const loaded = useApi('getCascadeOfEab', { params: { cred_id: id } })
  return (
    <>
      <p>It cannot be undone. It affects, as counted now:</p>
      <Ready loaded={loaded}>
        {({ accounts, authorizations, orders, certificates }) => (
          <ul>
            <li>{plural(countText(accounts), 'account')}, which can no longer do anything</li>
            <li>{plural(countText(authorizations), 'valid authorization')}</li>
            <li>{plural(countText(orders), 'open order')}</li>
            <li>
              {plural(countText(certificates), 'certificate stays', 'certificates stay')} valid; revoke under
              Certificates
            </li>
          </ul>
        )}
      </Ready>
    </>
  )
}
