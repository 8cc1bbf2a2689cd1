/** The choice of a role, with the tags of a registrar: for users and API tokens. */

import type { FormFields } from '../components/form.tsx'
import { tagsOf } from '../format.ts'
import { ROLE_HELP, ROLE_OPTIONS } from '../labels.ts'
import type { Role } from '../stored-session.ts'

export const roleFields = (role: Role, scope: readonly string[] = []) =>
  ({
    role: { label: 'Role', value: role, options: ROLE_OPTIONS, help: ({ role = '' }) => ROLE_HELP[role] },
    scope: {
      label: 'Tags',
      value: scope.join(', '),
      help: 'Of accounts and credentials, with commas between, such as team-a, plant-7.',
      required: true,
      when: ({ role }) => role === 'registrar',
    },
  }) as const satisfies FormFields

/** What the Admin API takes. */
export const roleBody = ({ role, scope }: Readonly<Record<'role' | 'scope', string>>) => ({
  role: role as Role,
  scope: role === 'registrar' ? tagsOf(scope) : [],
})
