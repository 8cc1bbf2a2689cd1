/** Grants of an account or a credential: allowed identifiers and the CSR profile. */

import { useEffect, useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { Allowed, Button, Empty, LinkTo, Problem, Ready, Skeleton } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { SelectField } from '../components/form.tsx'
import { Section, tell } from '../components/page.tsx'
import { href } from '../router.ts'
import { useApi, useList } from '../use-api.ts'
import { Enforcement, IdentifierForm } from './identifiers.tsx'

interface Owner {
  owner: 'account' | 'credential'
  id: string
}

type Profile = Pick<Output<'listCsrProfiles'>[number], 'id' | 'name'>
/** Identifiers of a credential do not name their owner. */
type Identifier = Output<'listIdentifiersOfEab'>[number] & { eab_credential_id?: string | null }

/** Sends what was typed: the service knows other spellings, takes what is in the list already, and makes what is missing. */
const allow = ({ owner, id }: Owner, typed: string) =>
  owner === 'account'
    ? call('changeIdentifiersOfAccount', { params: { account_id: id }, body: { allow: [typed] } })
    : call('changeIdentifiersOfEab', { params: { cred_id: id }, body: { allow: [typed] } })

const remove = ({ owner, id }: Owner, identifier_id: string) =>
  owner === 'account'
    ? call('removeAccountFromIdentifier', { params: { identifier_id, account_id: id } })
    : call('removeIdentifierFromEab', { params: { identifier_id, cred_id: id } })

export function GrantedIdentifiers({ owner, id }: Owner) {
  const granted = useGranted(owner, id)
  return (
    <Section title="Allowed identifiers">
      <Enforcement />
      <Problem error={granted.error} retry={granted.reload} />
      {granted.rows.length === 0 && granted.isLoading && <Skeleton rows={2} />}
      {granted.rows.length === 0 && !granted.isLoading && granted.error === undefined && (
        <Empty title="No identifiers allowed" />
      )}
      {granted.rows.length > 0 && (
        <ul class="rows">
          {granted.rows.map((identifier) => (
            <li key={identifier.id}>
              <code>{identifier.identifier_value}</code>
              <GrantEnd
                identifier={identifier}
                remove={() => remove({ owner, id }, identifier.id)}
                onRemoved={granted.reload}
              />
            </li>
          ))}
        </ul>
      )}
      {granted.hasMore && (
        <p>
          <Button kind="small" text="Load more" disabled={granted.isLoading} onClick={granted.more} />
        </p>
      )}
      <Allowed to="changeIdentifiersOfAccount">
        <IdentifierForm
          action="Allow"
          field="allow"
          onSubmit={async (value) => {
            const [allowed] = await allow({ owner, id }, value)
            tell(`${allowed?.identifier ?? value} is allowed.`)
            granted.reload()
          }}
        />
      </Allowed>
    </Section>
  )
}

interface GrantEndProps {
  identifier: Identifier
  remove: () => Promise<unknown>
  onRemoved: () => void
}

/** A grant of the account's credential is removed from the credential, not here. */
function GrantEnd({ identifier, remove, onRemoved }: GrantEndProps) {
  const { identifier_value: value, eab_credential_id: credential } = identifier
  if (credential) return <FromCredential id={credential} />
  return (
    <Action
      needs="removeAccountFromIdentifier"
      kind="small"
      action="Remove"
      of={value}
      danger
      consequence={
        <>
          <p>No new certificate for {value}, unless something else allows it. Existing certificates stay valid.</p>
          <Enforcement />
        </>
      }
      onConfirm={remove}
      done={`${value} is removed.`}
      onDone={onRemoved}
    />
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
  return (
    <Section title="CSR profile">
      <Ready loaded={loaded}>
        {(profile) => (
          <>
            <p>
              {profile ? (
                <LinkTo needs="getCsrProfile" to={href(`/csr-profiles/${profile.id}`)}>
                  {profile.name}
                </LinkTo>
              ) : (
                'None: a CSR only has to match its order.'
              )}{' '}
              {profile?.eab_credential_id && <FromCredential id={profile.eab_credential_id} />}
            </p>
            <Allowed to="assignCsrProfile">
              <ProfileChoice owner={owner} id={id} profile={profile} onChanged={loaded.reload} />
            </Allowed>
          </>
        )}
      </Ready>
    </Section>
  )
}

interface ChoiceProps extends Owner {
  profile: Output<'getCsrProfileOfAccount'>
  onChanged: () => void
}

function ProfileChoice({ owner, id, profile, onChanged }: ChoiceProps) {
  const profiles = useAll('listCsrProfiles')
  const isAccount = owner === 'account'
  const [chosen, setChosen] = useState<string>()
  const nameOf = (wanted: string) => profiles.rows.find((one) => one.id === wanted)?.name ?? 'none'
  return (
    <>
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
        <Action
          action="Change the profile"
          disabled={chosen === undefined || chosen === (ownOf(profile) ?? '')}
          consequence={`From now on, this profile applies: ${nameOf(chosen ?? '')}. Clients whose CSRs do not match get no certificate.`}
          onConfirm={() => assignProfile({ owner, id }, ownOf(profile), chosen ?? '')}
          done="The profile is changed."
          onDone={() => {
            setChosen(undefined)
            onChanged()
          }}
        />
      </div>
      <Problem error={profiles.error} retry={profiles.rows.length > 0 ? profiles.more : profiles.reload} />
    </>
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

/** The choice has the assigned profile, too, which may be on a page that has not come yet. */
function optionsOf(profiles: readonly Profile[], own: Profile | undefined): (readonly [string, string])[] {
  const rest = own && !profiles.some(({ id }) => id === own.id) ? [own] : []
  return [['', 'none'], ...[...profiles, ...rest].map(({ id, name }) => [id, name] as const)]
}

/** The profile of its credential is not the account's own. */
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
