/** What an account or a credential may request: allowed identifiers and the CSR profile. */

import { useState } from 'preact/hooks'
import { AdminApiError, call, type Output, page, useApi } from '../api.ts'
import { Allowed, Empty, fieldError, Problem, Ready } from '../components/basics.tsx'
import { SelectField, TextField, useSubmit } from '../components/form.tsx'
import { tell } from '../components/toast.tsx'
import { href } from '../router.ts'
import { WORDS } from '../words.ts'

interface Owner {
  owner: 'account' | 'credential'
  id: string
}

type Identifier = Output<'listIdentifiersOfAccount'>[number]

type Listed = Awaited<ReturnType<typeof page<'listAllowedIdentifiers'>>>

/** One that is in the list already is taken from there. */
async function identifierOf(value: string): Promise<{ id: string }> {
  const wanted = value.trim().toLowerCase()
  try {
    return await call('createAllowedIdentifier', { body: { type: typeOf(value), value } })
  } catch (error) {
    if (!(error instanceof AdminApiError) || error.status !== 409) throw error
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { body, next }: Listed = await page('listAllowedIdentifiers', { query: { limit: '100', cursor } })
      const found = body.find(({ identifier_value }) => identifier_value === wanted)
      if (found) return found
      cursor = new URLSearchParams(next?.split('?')[1]).get('cursor')
    }
    throw error
  }
}

/** Digits or hexadecimal with colons and perhaps a prefix; everything else is a name. */
export const typeOf = (value: string): 'dns' | 'ip' =>
  /^[\d.]+(?:\/\d+)?$|^[\da-f:.]*:[\da-f:.]*(?:\/\d+)?$/i.test(value.trim()) ? 'ip' : 'dns'

const allow = ({ owner, id }: Owner, identifier_id: string) =>
  owner === 'account'
    ? call('addAccountToIdentifier', { params: { identifier_id, account_id: id } })
    : call('addIdentifierToEab', { params: { identifier_id, cred_id: id } })

const takeBack = ({ owner, id }: Owner, identifier_id: string) =>
  owner === 'account'
    ? call('removeAccountFromIdentifier', { params: { identifier_id, account_id: id } })
    : call('removeIdentifierFromEab', { params: { identifier_id, cred_id: id } })

export function GrantedIdentifiers({ owner, id }: Owner) {
  const ofAccount = useApiOf(owner, id)
  const [value, setValue] = useState('')
  const { submit, error, isBusy } = useSubmit(async () => {
    const identifier = await identifierOf(value)
    await allow({ owner, id }, identifier.id)
    tell(WORDS.identifiers.allowed(value))
    setValue('')
    ofAccount.reload()
  })
  const takeBackOne = async (identifier: Identifier) => {
    await takeBack({ owner, id }, identifier.id)
    tell(WORDS.identifiers.takenBack(identifier.identifier_value))
    ofAccount.reload()
  }
  return (
    <section class="section">
      <h2>{WORDS.pages.identifiers}</h2>
      <p class="quiet">{WORDS.identifiers.help}</p>
      <Ready loaded={ofAccount}>
        {(identifiers) =>
          identifiers.length === 0 ? (
            <Empty title={WORDS.identifiers.noneGranted} />
          ) : (
            <ul class="rows">
              {identifiers.map((identifier) => (
                <li key={identifier.id}>
                  <code>{identifier.identifier_value}</code>
                  <Allowed to="removeAccountFromIdentifier">
                    <button
                      type="button"
                      class="small"
                      aria-label={WORDS.identifiers.takeBackOf(identifier.identifier_value)}
                      onClick={() => takeBackOne(identifier).catch((cause) => tell(String(cause.message), 'bad'))}
                    >
                      {WORDS.identifiers.takeBack}
                    </button>
                  </Allowed>
                </li>
              ))}
            </ul>
          )
        }
      </Ready>
      <Allowed to="addAccountToIdentifier">
        <form class="narrow" onSubmit={submit}>
          <TextField
            label={WORDS.identifiers.add}
            help={WORDS.identifiers.forms}
            value={value}
            onChange={setValue}
            error={fieldError(error, 'value')}
          />
          {fieldError(error, 'value') === undefined && <Problem error={error} />}
          <div class="actions left">
            <button type="submit" disabled={isBusy || value.trim() === ''}>
              {WORDS.identifiers.allow}
            </button>
          </div>
        </form>
      </Allowed>
    </section>
  )
}

function useApiOf(owner: Owner['owner'], id: string) {
  const operation = owner === 'account' ? 'listIdentifiersOfAccount' : 'listIdentifiersOfEab'
  const params = owner === 'account' ? { account_id: id } : { cred_id: id }
  return useApi<'listIdentifiersOfAccount'>(operation as 'listIdentifiersOfAccount', { params } as never)
}

export function GrantedProfile({ owner, id }: Owner) {
  const operation = owner === 'account' ? 'getCsrProfileOfAccount' : 'getCsrProfileOfEab'
  const params = owner === 'account' ? { account_id: id } : { cred_id: id }
  const loaded = useApi<'getCsrProfileOfAccount'>(operation as 'getCsrProfileOfAccount', { params } as never)
  const profiles = useApi('listCsrProfiles', {})
  const isAccount = owner === 'account'
  const [failure, setFailure] = useState<unknown>()
  const change = async (wanted: string) => {
    setFailure(undefined)
    try {
      await assignProfile({ owner, id }, loaded.data?.id, wanted)
      tell(WORDS.csrProfiles.assigned)
    } catch (cause) {
      setFailure(cause)
    }
    loaded.reload()
  }
  return (
    <section class="section">
      <h2>{WORDS.pages.csrProfile}</h2>
      <Ready loaded={loaded}>
        {(profile) => (
          <>
            <p>
              {profile ? (
                <a href={href(`/csr-profiles/${profile.id}`)}>{profile.name}</a>
              ) : (
                WORDS.csrProfiles.noneAssigned
              )}
            </p>
            <Allowed to="assignCsrProfile">
              <SelectField
                label={isAccount ? WORDS.csrProfiles.assign : WORDS.csrProfiles.assignToCredential}
                help={isAccount ? WORDS.csrProfiles.assignHelp : WORDS.csrProfiles.assignToCredentialHelp}
                value={profile?.id ?? ''}
                options={[['', WORDS.app.none], ...(profiles.data ?? []).map((one) => [one.id, one.name] as const)]}
                onChange={change}
              />
            </Allowed>
          </>
        )}
      </Ready>
      <Problem error={failure} />
    </section>
  )
}

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
