/** CSR profiles: the list, and one with a form, its JSON beside it, and its trials. */

import { useEffect, useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { ButtonLink, Empty, Facts, fieldError, Problem, Ready, Time } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { listPage } from '../components/list.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { Page, tell } from '../components/page.tsx'
import { countText, plural } from '../format.ts'
import { go, href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { CsrTrial, ProfileForm, ProfileTrial } from './csr-profile-editor.tsx'
import { type FieldSchema, fieldsOf, type ProfileData, readJson, withoutEmptyLines } from './profile-fields.ts'

const Create = () => <ButtonLink needs="createCsrProfile" to={href('/csr-profiles/new')} text="New CSR profile" />

export const CsrProfilesPage = listPage('listCsrProfiles', {
  title: 'CSR profiles',
  about: 'Rules for the CSRs of accounts, in addition to the order and the policy.',
  actions: () => <Create />,
  columns: [
    { head: 'Name', member: 'name', kind: 'wide', sorts: true, to: ({ id }) => href(`/csr-profiles/${id}`) },
    { head: 'Description', member: 'description', kind: 'wide' },
    { head: 'Rules', kind: 'number', cell: ({ profile_data }) => Object.keys(profile_data).length },
    { head: 'Changed', member: 'updated_at', kind: 'time' },
  ],
  empty: (
    <Empty
      title="No CSR profiles yet"
      about="Without a profile, a CSR only has to match its order. Create one, check it on recent certificates, then assign it."
    >
      <Create />
    </Empty>
  ),
})

type Profile = Output<'getCsrProfile'>

const NEW: Profile = {
  id: '',
  name: '',
  description: '',
  profile_data: {},
  created_by: null,
  account_ids: [],
  more_accounts: false,
  created_at: '',
  updated_at: '',
}

export function CsrProfilePage({ params }: PageProps) {
  const id = params['profile'] ?? ''
  return id === 'new' ? <Editor key="new" profile={NEW} reload={() => undefined} /> : <Stored key={id} id={id} />
}

function Stored({ id }: { id: string }) {
  const loaded = useApi('getCsrProfile', { params: { profile_id: id } })
  if (loaded.data) return <Editor key={loaded.data.updated_at} profile={loaded.data} reload={loaded.reload} />
  return (
    <LoadedPage title="CSR profile" loaded={loaded}>
      {() => null}
    </LoadedPage>
  )
}

/** The schema of `profile_data`, from the description that the service itself is made from. */
function schemaOf(document: Output<'getOpenApi'>): FieldSchema {
  const { schemas } = document['components'] as { schemas: Record<string, FieldSchema> }
  return schemas['CsrProfileData'] ?? {}
}

function Editor({ profile, reload }: { profile: Profile; reload: () => void }) {
  const isNew = profile.id === ''
  const mayChange = can(isNew ? 'createCsrProfile' : 'replaceCsrProfile')
  const document = useApi('getOpenApi', {})
  const [name, setName] = useState(profile.name)
  const [description, setDescription] = useState(profile.description)
  const [data, setData] = useState<ProfileData>(profile.profile_data)
  const body = { name, ...(description && { description }), profile_data: withoutEmptyLines(data) }
  const { submit, error, isBusy } = useSubmit(async () => {
    if (isNew) {
      const made = await call('createCsrProfile', { body })
      go(`/csr-profiles/${made.id}`)
    } else {
      await call('replaceCsrProfile', { params: { profile_id: profile.id }, body })
      reload()
    }
    tell('Profile saved; it applies now.')
  })
  return (
    <Page title={isNew ? 'New CSR profile' : profile.name} actions={!isNew && <Delete profile={profile} />}>
      {!isNew && <ProfileFacts profile={profile} />}
      <form onSubmit={submit}>
        <fieldset disabled={!mayChange} class="form">
          <legend class="hidden">CSR profile</legend>
          <div class="columns">
            <div class="form">
              <TextField label="Name" value={name} onChange={setName} required error={fieldError(error, 'name')} />
              <TextField
                label="Description"
                value={description}
                onChange={setDescription}
                error={fieldError(error, 'description')}
              />
              <Ready loaded={document}>
                {(described) => (
                  <ProfileForm fields={fieldsOf(schemaOf(described))} data={data} onChange={setData} error={error} />
                )}
              </Ready>
            </div>
            <JsonSide data={data} onChange={setData} />
          </div>
          <Problem error={error} />
        </fieldset>
        <ProfileTrial data={withoutEmptyLines(data)} profileId={isNew ? undefined : profile.id} />
        {mayChange && (
          <div class="actions left">
            <button type="submit" class="primary" disabled={isBusy}>
              Save
            </button>
          </div>
        )}
      </form>
      <CsrTrial data={withoutEmptyLines(data)} />
    </Page>
  )
}

const accountsText = ({ account_ids, more_accounts }: Profile) =>
  countText(account_ids.length) + (more_accounts ? '+' : '')

const Delete = ({ profile }: { profile: Profile }) => (
  <Action
    needs="deleteCsrProfile"
    kind="danger"
    action="Delete"
    title={`Delete ${profile.name}`}
    consequence={`${plural(accountsText(profile), 'account falls', 'accounts fall')} back to the profile of the credential, or to none. It cannot be undone.`}
    typed={profile.name}
    onConfirm={() => call('deleteCsrProfile', { params: { profile_id: profile.id } })}
    onDone={() => go('/csr-profiles')}
  />
)

const ProfileFacts = ({ profile }: { profile: Profile }) => (
  <Facts
    rows={[
      ['Accounts that use it', accountsText(profile)],
      ['Created', <Time at={profile.created_at} />],
      ['Changed', <Time at={profile.updated_at} />],
    ]}
  />
)

function JsonSide({ data, onChange }: { data: ProfileData; onChange: (data: ProfileData) => void }) {
  const [text, setText] = useState(() => JSON.stringify(data, null, 2))
  const read = readJson(text)
  const isSame = read.ok && JSON.stringify(read.data) === JSON.stringify(data)
  // Changed in the form: what is typed here is older.
  useEffect(() => {
    if (!isSame && read.ok) setText(JSON.stringify(data, null, 2))
  }, [JSON.stringify(data)])
  return (
    <TextField
      label="JSON"
      help="The form as JSON: a change here changes the form."
      rows={24}
      value={text}
      error={read.ok ? undefined : read.message}
      onChange={(typed) => {
        setText(typed)
        const typedData = readJson(typed)
        if (typedData.ok) onChange(typedData.data)
      }}
    />
  )
}
