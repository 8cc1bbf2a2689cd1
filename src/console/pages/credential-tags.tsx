/** The dialog for the tags of an EAB credential. */

import { call, type Output } from '../api.ts'
import { Action } from '../components/dialog.tsx'
import { TextField, useForm } from '../components/form.tsx'
import { tagsOf } from '../components/role-fields.tsx'

export function CredentialTags({
  credential: { id, tags },
  onChange,
}: {
  credential: Output<'getEabCredential'>
  onChange: () => void
}) {
  const { values, field, reset } = useForm({ tags: tags.join(' ') })
  return (
    <Action
      needs="updateEabCredential"
      text="Tags"
      title="Tags"
      action="Save"
      consequence={<p>Accounts that are registered already keep their tags.</p>}
      onOpen={reset}
      onConfirm={async () => {
        await call('updateEabCredential', { params: { cred_id: id }, body: { tags: tagsOf(values.tags) } })
        onChange()
      }}
    >
      {(error) => (
        <TextField
          label="Tags"
          help="Lower-case words, with spaces between them. New accounts get them, and registrars with one of them look after the credential."
          {...field('tags', error)}
        />
      )}
    </Action>
  )
}
