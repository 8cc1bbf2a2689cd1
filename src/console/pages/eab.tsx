/** External account binding (RFC 8555 §7.3.4): the credentials, and one with its grants and its revocation. */

import { CREDENTIAL_FILTERS, CREDENTIAL_MEMBERS } from '../../admin/resources/accounts.ts'
import { call, type Output } from '../api.ts'
import { Badge, ButtonLink, Copyable, Empty, Facts, Ready } from '../components/basics.tsx'
import { ACCOUNT, type Column, factsOf } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { listPage } from '../components/list.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { type KeptSecret, keepSecret, OnceShown } from '../components/once-shown.tsx'
import { counted, linesOf, tagsOf } from '../format.ts'
import { endOfDay } from '../preferences.ts'
import { href, type PageProps } from '../router.ts'
import { currentSession } from '../stored-session.ts'
import { useApi } from '../use-api.ts'
import { clientCommands, pemOf, ROOT_FILE } from './client-commands.ts'
import { GrantedIdentifiers, GrantedProfile } from './grants.tsx'

type Credential = Output<'listEabCredentials'>[number]
const PLACE = '/eab'

const STATUS: Column<Credential> = {
  head: 'Status',
  cell: ({ revoked, used, expires_at }) => {
    if (revoked) return <Badge tone="bad">revoked</Badge>
    if (expires_at !== null && Date.parse(expires_at) < Date.now()) return <Badge>expired</Badge>
    return used ? <Badge tone="good">used</Badge> : <Badge>not used yet</Badge>
  },
}

const COLUMNS: readonly Column<Credential>[] = [
  { head: 'Key identifier', member: 'kid', kind: 'wide', sorts: true, to: ({ id }) => href(`/eab/${id}`) },
  { head: 'Label', member: 'label', sorts: true },
  { head: 'Tags', member: 'tags', kind: 'tags' },
  STATUS,
  {
    head: 'Uses',
    kind: 'fixed',
    cell: ({ uses, max_uses }) => (max_uses === null ? uses : `${uses} / ${max_uses}`),
  },
  { head: 'Expires', member: 'expires_at', kind: 'time' },
  { head: 'Created', member: 'created_at', kind: 'instant' },
]

export const EabPage = listPage('listEabCredentials', {
  title: 'EAB credentials',
  about: 'A client registers its account with a credential. The grants of a credential apply to all its accounts.',
  filters: CREDENTIAL_FILTERS,
  columns: COLUMNS,
  csv: { name: 'eab-credentials.csv', members: CREDENTIAL_MEMBERS.file },
  actions: (reload) => (
    <>
      <CreateCredential onMade={reload} />
      <ButtonLink needs="createEabCredential" to={href('/onboarding')} text="Onboard a team" />
    </>
  ),
  empty: (reload) => (
    <Empty title="No credentials yet">
      <ol>
        <li>Create a credential; its key is shown once.</li>
        <li>Copy a ready command for certbot, lego, acme.sh, Caddy or cert-manager, and run it on the machine.</li>
        <li>Its account appears under Accounts, and the first certificate under Certificates.</li>
      </ol>
      <CreateCredential onMade={reload} />
    </Empty>
  ),
  above: () => <OnceShown place={PLACE}>{(secret) => <ReadyCommands secret={secret} />}</OnceShown>,
})

/** A registrar of one tag makes credentials with it. */
function currentTags(): string {
  const scope = currentSession().user?.scope ?? []
  return scope.length === 1 ? (scope[0] ?? '') : ''
}

const CreateCredential = ({ onMade }: { onMade: () => void }) => (
  <Action
    needs="createEabCredential"
    kind="primary"
    action="Create a credential"
    fields={{
      kid: {
        label: 'Key identifier',
        help: 'A name for the client to send, such as the name of a team or a machine.',
        required: true,
      },
      label: { label: 'Label', help: 'For you; clients do not see it.' },
      tags: {
        label: 'Tags',
        help: 'Whose it is, with commas between. Its accounts get them, and registrars of a tag look after them.',
        value: currentTags(),
      },
      max_uses: { label: 'Maximum accounts', help: 'Empty: acme.eab_reusable decides.', type: 'number' },
      expires_at: { label: 'Expires', help: 'At the end of that day.', type: 'date' },
      allowed_networks: { label: 'Allowed networks', help: 'One a line, such as 10.1.0.0/16. Empty: all.', rows: 2 },
    }}
    onConfirm={({ kid, label, tags, max_uses, expires_at, ...typed }) => {
      const allowed_networks = linesOf(typed.allowed_networks)
      const body = {
        kid,
        tags: tagsOf(tags),
        ...(label && { label }),
        ...(max_uses && { max_uses: Number(max_uses) }),
        ...(expires_at && { expires_at: endOfDay(expires_at) }),
        ...(allowed_networks && { allowed_networks }),
      }
      return call('createEabCredential', { body })
    }}
    onDone={({ id, kid, hmac_key }) => {
      const secrets = [
        ['Key identifier', kid],
        ['HMAC key', hmac_key],
      ] as const
      keepSecret({ id, place: PLACE, title: `The credential ${kid}`, secrets })
      onMade()
    }}
  />
)

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

const FACTS: readonly Column<Output<'getEabCredential'>>[] = [
  STATUS,
  { head: 'Label', member: 'label' },
  { head: 'Tags', member: 'tags', kind: 'tags' },
  { head: 'Id', member: 'id', kind: 'copy' },
  { head: 'Uses', cell: ({ uses }) => String(uses) },
  { head: 'Maximum accounts', cell: ({ max_uses }) => max_uses ?? 'set by acme.eab_reusable' },
  { head: 'CA profiles', member: 'profiles', kind: 'names' },
  { head: 'Allowed networks', member: 'allowed_networks', kind: 'names' },
  { head: 'Pre-approved networks', member: 'preapproved_networks', kind: 'names' },
  { head: 'Expires', member: 'expires_at', kind: 'time' },
  { head: 'First used', member: 'used_at', kind: 'time' },
  { head: 'Created', member: 'created_at', kind: 'time' },
  { ...ACCOUNT, head: 'Last account' },
]

export function EabCredentialPage({ params }: PageProps) {
  const cred_id = params['credential'] ?? ''
  const loaded = useApi('getEabCredential', { params: { cred_id } })
  return (
    <LoadedPage
      loaded={loaded}
      title={(credential) => credential?.kid ?? 'EAB credential'}
      actions={(credential) =>
        !credential.revoked && <CredentialActions credential={credential} reload={loaded.reload} />
      }
    >
      {(credential) => (
        <>
          <Facts rows={factsOf(credential, FACTS)} />
          <p>
            <a href={href('/accounts', { eab_kid: credential.kid })}>Accounts of this credential</a>
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
    </LoadedPage>
  )
}

interface ActionsProps {
  credential: Credential
  reload: () => void
}

const CredentialActions = ({ credential: { id: cred_id, kid, tags }, reload }: ActionsProps) => (
  <>
    <Action
      needs="updateEabCredential"
      text="Tags"
      title="Tags"
      action="Save"
      consequence="Accounts that are registered already keep their tags."
      fields={{
        tags: {
          label: 'Tags',
          value: tags.join(' '),
          help: 'Lower-case words, with spaces between them. New accounts get them, and registrars with one of them look after the credential.',
        },
      }}
      onConfirm={(typed) => call('updateEabCredential', { params: { cred_id }, body: { tags: tagsOf(typed.tags) } })}
      onDone={reload}
    />
    <Action
      needs="revokeEabCredential"
      kind="danger"
      action="Revoke"
      title={`Revoke ${kid}`}
      consequence={<Cascade id={cred_id} />}
      typed={kid}
      onConfirm={() => call('revokeEabCredential', { params: { cred_id } })}
      done="The credential and its accounts are revoked."
      onDone={reload}
    />
  </>
)

/** Accounts, orders and certificates are counted before the button can be pressed. */
function Cascade({ id }: { id: string }) {
  const loaded = useApi('getCascadeOfEab', { params: { cred_id: id } })
  return (
    <>
      <p>It cannot be undone. It affects, as counted now:</p>
      <Ready loaded={loaded}>
        {({ accounts, authorizations, orders, certificates }) => (
          <ul>
            <li>{counted(accounts, 'account')}, which can no longer do anything</li>
            <li>{counted(authorizations, 'valid authorization')}</li>
            <li>{counted(orders, 'open order')}</li>
            <li>{counted(certificates, 'certificate stays', 'certificates stay')} valid; revoke under Certificates</li>
          </ul>
        )}
      </Ready>
    </>
  )
}
