/** Allowed identifiers, whom they are allowed to, and new ones. */

import { useState } from 'preact/hooks'
import { call, type Output, useList } from '../api.ts'
import { Allowed, Empty, fieldError, Problem, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { Enforcement } from '../components/enforcement.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'
import type { PageProps } from '../router.ts'
import { WORDS } from '../words.ts'
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
    tell(WORDS.identifiers.made(value))
    setValue('')
    list.reload()
  })
  return (
    <Page title={WORDS.pages.identifiers}>
      <Enforcement />
      <Allowed to="createAllowedIdentifier">
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
            <button type="submit" class="primary" disabled={isBusy || value.trim() === ''}>
              {WORDS.identifiers.create}
            </button>
          </div>
        </form>
      </Allowed>
      <List
        caption={WORDS.pages.identifiers}
        list={list}
        columns={columnsOf(setDoomed)}
        rowKey={({ id }) => id}
        empty={
          <Empty title={WORDS.identifiers.empty}>
            <p>{WORDS.identifiers.begin}</p>
          </Empty>
        }
      />
      {doomed && (
        <Confirm
          title={WORDS.identifiers.deleteOf(doomed.identifier_value)}
          consequence={
            <>
              <p>{WORDS.identifiers.deleteConsequence(accountsText(doomed))}</p>
              <Enforcement />
            </>
          }
          action={WORDS.common.delete}
          danger
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await call('deleteAllowedIdentifier', { params: { identifier_id: doomed.id } })
            tell(WORDS.identifiers.deleted(doomed.identifier_value))
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
  { head: WORDS.identifiers.value, kind: 'wide', cell: (one) => <code>{one.identifier_value}</code> },
  { head: WORDS.identifiers.accounts, kind: 'wide', cell: (one) => <AccountsOf identifier={one} /> },
  { head: WORDS.common.created, kind: 'fixed', cell: (one) => <Time at={one.created_at} /> },
  {
    head: WORDS.common.actions,
    cell: (one) => (
      <Allowed to="deleteAllowedIdentifier">
        <button
          type="button"
          class="small"
          aria-label={WORDS.identifiers.deleteOf(one.identifier_value)}
          onClick={() => remove(one)}
        >
          {WORDS.common.delete}
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
      <span class="quiet">
        {WORDS.common.more(countText(ids.length - SHOWN_ACCOUNTS) + (more_accounts ? '+' : ''))}
      </span>
    )}
    {ids.length === 0 && <span class="quiet">{WORDS.app.none}</span>}
  </span>
)
