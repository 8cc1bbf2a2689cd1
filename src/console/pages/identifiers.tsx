/** Allowed identifiers, whom they are allowed to, and new ones. */

import { useState } from 'preact/hooks'
import { call, type Output, useList } from '../api.ts'
import { Allowed, Empty, fieldError, Problem, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { Enforcement } from '../components/enforcement.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { Page, tell } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import type { PageProps } from '../router.ts'
import { AccountLink } from './accounts.tsx'

type Identifier = Output<'listAllowedIdentifiers'>[number]
const SHOWN_ACCOUNTS = 3

/** Digits or hexadecimal with colons and perhaps a prefix; everything else is a name. */
const typeOf = (value: string): 'dns' | 'ip' =>
  /^[\d.]+(?:\/\d+)?$|^[\da-f:.]*:[\da-f:.]*(?:\/\d+)?$/i.test(value.trim()) ? 'ip' : 'dns'

export function IdentifiersPage({ entry }: PageProps) {
  const list = useList('listAllowedIdentifiers', {}, entry)
  const [value, setValue] = useState('')
  const [doomed, setDoomed] = useState<Identifier>()
  const { submit, error, isBusy } = useSubmit(async () => {
    await call('createAllowedIdentifier', { body: { type: typeOf(value), value } })
    tell(`${value} is in the list. Allow it to an account or a credential.`)
    setValue('')
    list.reload()
  })
  return (
    <Page title="Allowed identifiers">
      <Enforcement />
      <Allowed to="createAllowedIdentifier">
        <form class="narrow" onSubmit={submit}>
          <TextField
            label="Name, address or network"
            help="A name, *.name for it and all below, an address, or a network such as 10.1.0.0/16."
            value={value}
            onChange={setValue}
            error={fieldError(error, 'value')}
          />
          {fieldError(error, 'value') === undefined && <Problem error={error} />}
          <div class="actions left">
            <button type="submit" class="primary" disabled={isBusy || value.trim() === ''}>
              Add
            </button>
          </div>
        </form>
      </Allowed>
      <List
        caption="Allowed identifiers"
        list={list}
        columns={columnsOf(setDoomed)}
        rowKey={({ id }) => id}
        empty={
          <Empty title="No identifiers yet">
            <p>Add a name or network here, then allow it to a credential or an account on their pages.</p>
          </Empty>
        }
      />
      {doomed && (
        <Confirm
          title={`Delete ${doomed.identifier_value}`}
          consequence={
            <>
              <p>
                It is removed from {plural(accountsText(doomed), 'account')} and all credentials. Existing certificates
                stay valid.
              </p>
              <Enforcement />
            </>
          }
          action="Delete"
          danger
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await call('deleteAllowedIdentifier', { params: { identifier_id: doomed.id } })
            tell(`${doomed.identifier_value} is deleted.`)
            list.reload()
          }}
        />
      )}
    </Page>
  )
}

const accountsText = ({ account_ids, more_accounts }: Identifier) =>
  countText(account_ids.length) + (more_accounts ? '+' : '')

const columnsOf = (remove: (identifier: Identifier) => void): Column<Identifier>[] => [
  { head: 'Identifier', kind: 'wide', cell: (one) => <code>{one.identifier_value}</code> },
  { head: 'Accounts', kind: 'wide', cell: (one) => <AccountsOf identifier={one} /> },
  { head: 'Created', kind: 'fixed', cell: (one) => <Time at={one.created_at} /> },
  {
    head: 'Actions',
    cell: (one) => (
      <Allowed to="deleteAllowedIdentifier">
        <button type="button" class="small" aria-label={`Delete ${one.identifier_value}`} onClick={() => remove(one)}>
          Delete
        </button>
      </Allowed>
    ),
  },
]

const AccountsOf = ({ identifier: { account_ids: ids, more_accounts } }: { identifier: Identifier }) => (
  <span class="names">
    {ids.slice(0, SHOWN_ACCOUNTS).map((id) => (
      <AccountLink key={id} id={id} short />
    ))}
    {ids.length > SHOWN_ACCOUNTS && (
      <span class="quiet">and {countText(ids.length - SHOWN_ACCOUNTS) + (more_accounts ? '+' : '')} more</span>
    )}
    {ids.length === 0 && <span class="quiet">none</span>}
  </span>
)
