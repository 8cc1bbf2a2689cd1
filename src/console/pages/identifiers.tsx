/** Allowed identifiers, whom they are allowed to, and new ones. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { AccountLink, Empty, fieldError, Problem, Ready } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { listPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { countText, plural } from '../format.ts'
import { useApi } from '../use-api.ts'

type Identifier = Output<'listAllowedIdentifiers'>[number]
const SHOWN = 3

/** Digits or hexadecimal with colons and perhaps a prefix; everything else is a name. */
const typeOf = (value: string): 'dns' | 'ip' =>
  /^[\d.]+(?:\/\d+)?$|^[\da-f:.]*:[\da-f:.]*(?:\/\d+)?$/i.test(value.trim()) ? 'ip' : 'dns'

export const IdentifiersPage = listPage('listAllowedIdentifiers', {
  title: 'Allowed identifiers',
  columns: columnsOf,
  empty: (
    <Empty title="No identifiers yet">
      <p>Add a name or network here, then allow it to a credential or an account on their pages.</p>
    </Empty>
  ),
  above: (reload) => (
    <>
      <Enforcement />
      {can('createAllowedIdentifier') && (
        <IdentifierForm
          action="Add"
          field="value"
          onSubmit={async (value) => {
            await call('createAllowedIdentifier', { body: { type: typeOf(value), value } })
            tell(`${value} is in the list. Allow it to an account or a credential.`)
            reload()
          }}
        />
      )}
    </>
  ),
})

const accountsText = ({ account_ids, more_accounts }: Identifier) =>
  countText(account_ids.length) + (more_accounts ? '+' : '')

const credentialsText = (kids: readonly string[]) =>
  kids.length === 0 ? 'none' : [...kids.slice(0, SHOWN), ...(kids.length > SHOWN ? ['…'] : [])].join(', ')

function columnsOf(reload: () => void): Column<Identifier>[] {
  return [
    {
      head: 'Identifier',
      kind: 'wide',
      by: ({ identifier_value }) => identifier_value,
      cell: ({ identifier_value }) => <code>{identifier_value}</code>,
    },
    { head: 'Credentials', kind: 'wide', cell: ({ credential_kids }) => credentialsText(credential_kids) },
    { head: 'Accounts', kind: 'wide', cell: (one) => <AccountsOf identifier={one} /> },
    { head: 'Created', member: 'created_at', kind: 'time' },
    { head: 'Actions', cell: (one) => <Delete identifier={one} onDeleted={reload} /> },
  ]
}

const Delete = ({ identifier, onDeleted }: { identifier: Identifier; onDeleted: () => void }) => (
  <Action
    needs="deleteAllowedIdentifier"
    kind="small"
    action="Delete"
    of={identifier.identifier_value}
    danger
    consequence={
      <>
        <p>
          It is removed from {plural(accountsText(identifier), 'account')}. Credentials that no longer grant it:{' '}
          {credentialsText(identifier.credential_kids)}. Existing certificates stay valid.
        </p>
        <Enforcement />
      </>
    }
    onConfirm={() => call('deleteAllowedIdentifier', { params: { identifier_id: identifier.id } })}
    done={`${identifier.identifier_value} is deleted.`}
    onDone={onDeleted}
  />
)

const AccountsOf = ({
  identifier: { account_ids: ids, account_names: names, more_accounts },
}: {
  identifier: Identifier
}) => (
  <span class="names">
    {ids.slice(0, SHOWN).map((id, index) => (
      <AccountLink key={id} id={id} name={names[index]} />
    ))}
    {ids.length > SHOWN && (
      <span class="quiet">and {countText(ids.length - SHOWN) + (more_accounts ? '+' : '')} more</span>
    )}
    {ids.length === 0 && <span class="quiet">none</span>}
  </span>
)

const KEY = 'security.identifier_policy.enforce_account_allowlist'

/** Says whether the service enforces allowed identifiers. Without enforcement they protect nothing. */
export function Enforcement() {
  const loaded = useApi('getSettings', {})
  return (
    <Ready loaded={loaded}>
      {({ settings }) =>
        settings.find(({ key }) => key === KEY)?.value === true ? (
          <p class="quiet">Enforced: an account gets certificates for these only.</p>
        ) : (
          <p class="bar warn">
            Not enforced: security.identifier_policy.enforce_account_allowlist is off, so accounts may also request
            other names.
          </p>
        )
      }
    </Ready>
  )
}

interface IdentifierFormProps {
  action: string
  /** The member of the request that its error names. */
  field: string
  onSubmit: (value: string) => Promise<void>
}

/** Takes one identifier, and sends it as it is typed. */
export function IdentifierForm({ action, field, onSubmit }: IdentifierFormProps) {
  const [value, setValue] = useState('')
  const { submit, error, isBusy } = useSubmit(async () => {
    await onSubmit(value)
    setValue('')
  })
  const said = fieldError(error, field)
  return (
    <form class="narrow" onSubmit={submit}>
      <TextField
        label="Name, address or network"
        help="A name, *.name for it and all below, an address, or a network such as 10.1.0.0/16."
        value={value}
        onChange={setValue}
        error={said}
      />
      {said === undefined && <Problem error={error} />}
      <div class="actions left">
        <button type="submit" class="primary" disabled={isBusy || value.trim() === ''}>
          {action}
        </button>
      </div>
    </form>
  )
}
