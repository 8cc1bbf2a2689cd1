/** One binding credential: what it grants, and its revocation with all that goes with it. */

import { useState } from 'preact/hooks'
import { call, useApi } from '../api.ts'
import { Allowed, Copyable, Facts, Ready, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { Page } from '../components/page.tsx'
import { tell } from '../components/toast.tsx'
import { countText, plural } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { AccountLink } from './accounts.tsx'
import { CredentialState } from './eab.tsx'
import { GrantedIdentifiers, GrantedProfile } from './grants.tsx'

export function EabCredentialPage({ params }: PageProps) {
  const cred_id = params['credential'] ?? ''
  const loaded = useApi('getEabCredential', { params: { cred_id } })
  const [isRevoking, setRevoking] = useState(false)
  const { data } = loaded
  return (
    <Page
      title={data?.kid ?? 'EAB credential'}
      actions={
        <Allowed to="revokeEabCredential">
          {data && !data.revoked && (
            <button type="button" class="danger" onClick={() => setRevoking(true)}>
              Revoke
            </button>
          )}
        </Allowed>
      }
    >
      <Ready loaded={loaded}>
        {(credential) => (
          <Facts
            rows={[
              ['Status', <CredentialState key="state" credential={credential} />],
              ['Label', credential.label],
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
                <AccountLink key="account" id={credential.account_id} />,
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
          <div class="columns">
            <GrantedIdentifiers owner="credential" id={cred_id} />
            <GrantedProfile owner="credential" id={cred_id} />
          </div>
        </>
      )}
      {isRevoking && data && (
        <Confirm
          title={`Revoke ${data.kid}`}
          consequence={<Cascade id={cred_id} />}
          action="Revoke"
          danger
          typed={data.kid}
          onClose={() => setRevoking(false)}
          onConfirm={async () => {
            await call('revokeEabCredential', { params: { cred_id } })
            tell('The credential and its accounts are revoked.')
            loaded.reload()
          }}
        />
      )}
    </Page>
  )
}

/** What goes with it is counted before the button can be pressed. */
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
