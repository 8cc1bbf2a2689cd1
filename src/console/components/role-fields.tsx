/** The choice of a role, with the tags of a registrar: for users and API tokens. */

import { ROLE_HELP, ROLE_OPTIONS } from '../labels.ts'
import type { Role } from '../stored-session.ts'
import { SelectField, TextField, type useForm } from './form.tsx'

/** Of a form; the tags are as typed. */
export type RoleValues = Record<'role' | 'scope', string>

interface Fields {
  values: RoleValues
  field: (name: keyof RoleValues, error: unknown) => ReturnType<ReturnType<typeof useForm>['field']>
}

export function RoleFields({ values: { role }, field, error }: Fields & { error: unknown }) {
  return (
    <>
      <SelectField label="Role" help={ROLE_HELP[role]} options={ROLE_OPTIONS} {...field('role', error)} />
      {role === 'registrar' && (
        <TextField
          label="Tags"
          help="Of accounts and credentials, with commas between, such as team-a, plant-7."
          required
          {...field('scope', error)}
        />
      )}
    </>
  )
}

export const tagsOf = (typed: string): string[] => typed.split(/[\s,]+/).filter((tag) => tag !== '')

/** As the Admin API takes them. */
export const roleBody = ({ role, scope }: RoleValues) => ({
  role: role as Role,
  scope: role === 'registrar' ? tagsOf(scope) : [],
})
