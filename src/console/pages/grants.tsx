/** What an account or a credential may request: allowed identifiers and the CSR profile. */

import { useEffect, useState } from 'preact/hooks'
import { call, can, type Output, useApi, useList } from '../api.ts'
import { Allowed, Empty, fieldError, Problem, Ready } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { Enforcement } from '../components/enforcement.tsx'
import { SelectField, TextField, useSubmit } from '../components/form.tsx'
import { tell } from '../components/page.tsx'
import { href } from '../router.ts'

interface Owner {
  owner: 'account' | 'credential'
  id: string
}

type Profile = Pick<Output<'listCsrProfiles'>[number], 'id' | 'name'>
/** Those of a credential do not say whose they are. */
type Identifier = Output<'listIdentifiersOfEab'>[number] & { eab_credential_id?: string | null }

/** As typed: the service knows other spellings, takes what is in the list already, and makes what is missing. */
const allow = ({ owner, id }: Owner, typed: string) =>
  owner === 'account'
    ? call('changeIdentifiersOfAccount', { params: { account_id: id }, body: { allow: [typed] } })
    : call('changeIdentifiersOfEab', { params: { cred_id: id }, body: { allow: [typed] } })

const takeBack = ({ owner, id }: Owner, identifier_id: string) =>
  owner === 'account'
    ? call('removeAccountFromIdentifier', { params: { identifier_id, account_id: id } })
    : call('removeIdentifierFromEab', { params: { identifier_id, cred_id: id } })

export function GrantedIdentifiers({ owner, id }: Owner) {
  const granted = useGranted(owner, id)
  const [value, setValue] = useState('')
  const { submit, error, isBusy } = useSubmit(async () => {
    const [allowed] = await allow({ owner, id }, value)
    tell(`${allowed?.identifier ?? value} is allowed.`)
    setValue('')
    granted.reload()
  })
  const [doomed, setDoomed] = useState<Identifier>()
  return (
    <section class="section">
      <h2>Allowed identifiers</h2>
      <Enforcement />
      <Problem error={granted.error} retry={granted.reload} />
      {granted.rows.length === 0 && granted.isLoading && <p class="quiet">Loading …</p>}
      {granted.rows.length === 0 && !granted.isLoading && granted.error === undefined && (
        <Empty title="No identifiers allowed" />
      )}
      {granted.rows.length > 0 && (
        <ul class="rows">
          {granted.rows.map((identifier) => (
            <li key={identifier.id}>
              <code>{identifier.identifier_value}</code>
              <GrantEnd identifier={identifier} takeBack={() => setDoomed(identifier)} />
            </li>
          ))}
        </ul>
      )}
      {granted.hasMore && (
        <p>
          <button type="button" class="small" disabled={granted.isLoading} onClick={granted.more}>
            Load more
          </button>
        </p>
      )}
      {doomed && (
        <Confirm
          title={`Remove ${doomed.identifier_value}`}
          action="Remove"
          consequence={
            <>
              <p>
                No new certificate for {doomed.identifier_value}, unless something else allows it. Existing certificates
                stay valid.
              </p>
              <Enforcement />
            </>
          }
          danger
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await takeBack({ owner, id }, doomed.id)
            tell(`${doomed.identifier_value} is removed.`)
            granted.reload()
          }}
        />
      )}
      <Allowed to="changeIdentifiersOfAccount">
        <form class="narrow" onSubmit={submit}>
          <TextField
            label="Name, address or network"
            help="A name, *.name for it and all below, an address, or a network such as 10.1.0.0/16."
            value={value}
            onChange={setValue}
            error={fieldError(error, 'allow')}
          />
          {fieldError(error, 'allow') === undefined && <Problem error={error} />}
          <div class="actions left">
            <button type="submit" disabled={isBusy || value.trim() === ''}>
              Allow
            </button>
          </div>
        </form>
      </Allowed>
    </section>
  )
}

/** What its credential grants to an account is taken back there. */
function GrantEnd({ identifier, takeBack }: { identifier: Identifier; takeBack: () => void }) {
  const { identifier_value, eab_credential_id: credential } = identifier
  if (credential) return <FromCredential id={credential} />
  return (
    <Allowed to="removeAccountFromIdentifier">
      <button type="button" class="small" aria-label={`Remove ${identifier_value}`} onClick={takeBack}>
        Remove
      </button>
    </Allowed>
  )
}

const FromCredential = ({ id }: { id: string }) => (
  <span class="quiet">
    {can('getEabCredential') ? <a href={href(`/eab/${id}`)}>through its credential</a> : 'through its credential'}
  </span>
)

function useGranted(owner: Owner['owner'], id: string) {
  const operation = owner === 'account' ? 'listIdentifiersOfAccount' : 'listIdentifiersOfEab'
  const params = owner === 'account' ? { account_id: id } : { cred_id: id }
  return useList<'listIdentifiersOfAccount'>(operation as 'listIdentifiersOfAccount', { params } as never)
}

export function GrantedProfile({ owner, id }: Owner) {
  const operation = owner === 'account' ? 'getCsrProfileOfAccount' : 'getCsrProfileOfEab'
  const params = owner === 'account' ? { account_id: id } : { cred_id: id }
  const loaded = useApi<'getCsrProfileOfAccount'>(operation as 'getCsrProfileOfAccount', { params } as never)
  const profiles = useAll('listCsrProfiles')
  const isAccount = owner === 'account'
  const [chosen, setChosen] = useState<string>()
  const [isAsking, setAsking] = useState(false)
  const nameOf = (wanted: string) => profiles.rows.find((one) => one.id === wanted)?.name ?? 'none'
  return (
    <section class="section">
      <h2>CSR profile</h2>
      <Ready loaded={loaded}>
        {(profile) => (
          <>
            <p>
              {profile ? (
                <a href={href(`/csr-profiles/${profile.id}`)}>{profile.name}</a>
              ) : (
                'None: a CSR only has to match its order.'
              )}{' '}
              {profile?.eab_credential_id && <FromCredential id={profile.eab_credential_id} />}
            </p>
            <Allowed to="assignCsrProfile">
              <SelectField
                label={isAccount ? 'Own profile' : 'Profile for its accounts'}
                help={
                  isAccount
                    ? 'Takes precedence over the profile of the credential.'
                    : 'Applies to accounts without their own profile.'
                }
                value={chosen ?? ownOf(profile) ?? ''}
                options={optionsOf(profiles.rows, profile && ownOf(profile) ? profile : undefined)}
                onChange={setChosen}
              />
              <div class="actions left">
                <button
                  type="button"
                  disabled={chosen === undefined || chosen === (ownOf(profile) ?? '')}
                  onClick={() => setAsking(true)}
                >
                  Change the profile
                </button>
              </div>
              <Problem error={profiles.error} retry={profiles.rows.length > 0 ? profiles.more : profiles.reload} />
            </Allowed>
          </>
        )}
      </Ready>
      {isAsking && chosen !== undefined && (
        <Confirm
          title="Change the profile"
          action="Change the profile"
          consequence={
            <p>
              From now on, this profile applies: {nameOf(chosen)}. Clients whose CSRs do not match get no certificate.
            </p>
          }
          onClose={() => setAsking(false)}
          onConfirm={async () => {
            await assignProfile({ owner, id }, ownOf(loaded.data), chosen)
            tell('The profile is changed.')
            setChosen(undefined)
            loaded.reload()
          }}
        />
      )}
    </section>
  )
}

/** All rows of a list, page after page, as far as a page of the console keeps them. */
function useAll(operation: 'listCsrProfiles') {
  const list = useList(operation, {})
  const { hasMore, isLoading, error, dropped, more } = list
  useEffect(() => {
    if (hasMore && !isLoading && error === undefined && dropped === 0) more()
  }, [hasMore, isLoading, error, dropped, more])
  return list
}

/** With the assigned one, which may be on a page that has not come yet. */
function optionsOf(profiles: readonly Profile[], own: Profile | undefined): (readonly [string, string])[] {
  const rest = own && !profiles.some(({ id }) => id === own.id) ? [own] : []
  return [['', 'none'], ...[...profiles, ...rest].map(({ id, name }) => [id, name] as const)]
}

/** That of its credential is not the account's own. */
const ownOf = (profile: Output<'getCsrProfileOfAccount'> | undefined): string | undefined =>
  profile?.eab_credential_id ? undefined : profile?.id

function assignProfile({ owner, id }: Owner, former: string | undefined, wanted: string): Promise<unknown> {
  const profile_id = wanted === '' ? former : wanted
  if (profile_id === undefined) return Promise.resolve()
  if (owner === 'account') {
    const params = { profile_id, account_id: id }
    return wanted === '' ? call('unassignCsrProfile', { params }) : call('assignCsrProfile', { params })
  }
  const params = { profile_id, cred_id: id }
  return wanted === '' ? call('unassignCsrProfileFromEab', { params }) : call('assignCsrProfileToEab', { params })
}
