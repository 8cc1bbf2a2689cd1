/** One binding credential: what it grants, and its revocation with all that goes with it. */

import { useState } from 'preact/hooks'
import { call, useApi } from '../api.ts'
import { Allowed, Copyable, Facts, Ready, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { Page } from '../components/page.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
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
      title={data?.kid ?? WORDS.pages.eabCredential}
      actions={
        <Allowed to="revokeEabCredential">
          {data && !data.revoked && (
            <button type="button" class="danger" onClick={() => setRevoking(true)}>
              {WORDS.eab.revoke}
            </button>
          )}
        </Allowed>
      }
    >
      <Ready loaded={loaded}>
        {(credential) => (
          <Facts
            rows={[
              [WORDS.common.status, <CredentialState key="state" credential={credential} />],
              [WORDS.eab.label, credential.label],
              [WORDS.common.id, <Copyable key="id" text={credential.id} />],
              [WORDS.eab.uses, String(credential.uses)],
              [WORDS.eab.maxUses, credential.max_uses ?? WORDS.eab.asConfigured],
              [WORDS.eab.profiles, credential.profiles?.join(', ')],
              [WORDS.eab.networks, credential.allowed_networks?.join(', ')],
              [WORDS.eab.preapproved, credential.preapproved_networks?.join(', ')],
              [WORDS.common.expires, <Time key="expires" at={credential.expires_at} />],
              [WORDS.eab.usedAt, <Time key="used" at={credential.used_at} />],
              [WORDS.common.created, <Time key="created" at={credential.created_at} />],
              credential.account_id !== null && [
                WORDS.eab.lastAccount,
                <AccountLink key="account" id={credential.account_id} />,
              ],
            ]}
          />
        )}
      </Ready>
      {data && (
        <>
          <p>
            <a href={href('/accounts', { eab_kid: data.kid })}>{WORDS.eab.accounts}</a>
          </p>
          <div class="columns">
            <GrantedIdentifiers owner="credential" id={cred_id} />
            <GrantedProfile owner="credential" id={cred_id} />
          </div>
        </>
      )}
      {isRevoking && data && (
        <Confirm
          title={WORDS.eab.revokeOf(data.kid)}
          consequence={<Cascade id={cred_id} />}
          action={WORDS.eab.revoke}
          danger
          typed={data.kid}
          onClose={() => setRevoking(false)}
          onConfirm={async () => {
            await call('revokeEabCredential', { params: { cred_id } })
            tell(WORDS.eab.revokedNow)
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
      <p>{WORDS.eab.revokeConsequence}</p>
      <Ready loaded={loaded}>
        {({ accounts, authorizations, orders, certificates }) => (
          <ul>
            <li>{WORDS.eab.cascade.accounts(countText(accounts))}</li>
            <li>{WORDS.eab.cascade.authorizations(countText(authorizations))}</li>
            <li>{WORDS.eab.cascade.orders(countText(orders))}</li>
            <li>{WORDS.eab.cascade.certificates(countText(certificates))}</li>
          </ul>
        )}
      </Ready>
    </>
  )
}
