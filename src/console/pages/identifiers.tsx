/** Allowed identifiers, whom they are allowed to, and new ones. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { AccountLink, Allowed, Empty, fieldError, Problem, Ready } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import type { PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { useList } from '../use-list.ts'

type Identifier = Output<'listAllowedIdentifiers'>[number]
const SHOWN = 3

/** Digits or hexadecimal with colons and perhaps a prefix; everything else is a name. */
const typeOf = (value: string): 'dns' | 'ip' =>
  /^[\d.]+(?:\/\d+)?$|^[\da-f:.]*:[\da-f:.]*(?:\/\d+)?$/i.test(value.trim()) ? 'ip' : 'dns'

export function IdentifiersPage({ entry }: PageProps) {
  const list = useList('listAllowedIdentifiers', {}, entry)
  return (
    <ListPage
      title="Allowed identifiers"
      list={list}
      columns={columnsOf(list.reload)}
      empty={
        <Empty title="No identifiers yet">
          <p>Add a name or network here, then allow it to a credential or an account on their pages.</p>
        </Empty>
      }
    >
      <Enforcement />
      <Allowed to="createAllowedIdentifier">
        <IdentifierForm
          action="Add"
          field="value"
          onSubmit={async (value) => {
            await call('createAllowedIdentifier', { body: { type: typeOf(value), value } })
            tell(`${value} is in the list. Allow it to an account or a credential.`)
            list.reload()
          }}
        />
      </Allowed>
    </ListPage>
  )
}

const accountsText = ({ account_ids, more_accounts }: Identifier) =>
  countText(account_ids.length) + (more_accounts ? '+' : '')

const credentialsText = (kids: readonly string[]) =>
  kids.length === 0 ? 'none' : [...kids.slice(0, SHOWN), ...(kids.length > SHOWN ? ['…'] : [])].join(', ')

const columnsOf = (reload: () => void): Column<Identifier>[] => [
  {
    head: 'Identifier',
    kind: 'wide',
    by: ({ identifier_value }) => identifier_value,
    cell: ({ identifier_value }) => <code>{identifier_value}</code>,
  },
  { head: 'Credentials', kind: 'wide', cell: ({ credential_kids }) => credentialsText(credential_kids) },
  { head: 'Accounts', kind: 'wide', cell: (one) => <AccountsOf identifier={one} /> },
  timeColumn('Created', 'created_at'),
  {
    head: 'Actions',
    cell: (one) => (
      <Action
        needs="deleteAllowedIdentifier"
        kind="small"
        label={`Delete ${one.identifier_value}`}
        title={`Delete ${one.identifier_value}`}
        action="Delete"
        danger
        consequence={
          <>
            <p>
              It is removed from {plural(accountsText(one), 'account')}. Credentials that no longer grant it:{' '}
              {credentialsText(one.credential_kids)}. Existing certificates stay valid.
            </p>
            <Enforcement />
          </>
        }
        onConfirm={async () => {
          await call('deleteAllowedIdentifier', { params: { identifier_id: one.id } })
          tell(`${one.identifier_value} is deleted.`)
          reload()
        }}
      />
    ),
  },
]

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

/** One identifier, which is taken as it is typed. */
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
