/** Allowed identifiers, whom they are allowed to, and new ones. */

import { useState } from 'preact/hooks'
import { call, type Output, useApi } from '../api.ts'
import { Allowed, Empty, fieldError, Problem, Ready, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'
import { WORDS } from '../words.ts'
import { AccountLink } from './accounts.tsx'
import { typeOf } from './grants.tsx'

type Identifier = Output<'listAllowedIdentifiers'>[number]
const SHOWN_ACCOUNTS = 3

export function IdentifiersPage() {
  const loaded = useApi('listAllowedIdentifiers', {})
  const [value, setValue] = useState('')
  const [part, setPart] = useState('')
  const [doomed, setDoomed] = useState<Identifier>()
  const { submit, error, isBusy } = useSubmit(async () => {
    await call('createAllowedIdentifier', { body: { type: typeOf(value), value } })
    tell(WORDS.identifiers.made(value))
    setValue('')
    loaded.reload()
  })
  return (
    <Page title={WORDS.pages.identifiers}>
      <p class="quiet">{WORDS.identifiers.help}</p>
      <Allowed to="createAllowedIdentifier">
        <form class="narrow" onSubmit={submit}>
          <TextField
            {...{ label: WORDS.identifiers.add, help: WORDS.identifiers.forms, value, onChange: setValue }}
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
      <Ready loaded={loaded}>
        {(identifiers) => (
          <>
            {identifiers.length > 0 && (
              <div class="filters">
                <TextField type="search" label={WORDS.table.filter} value={part} onChange={setPart} />
              </div>
            )}
            <Table
              caption={WORDS.pages.identifiers}
              rows={identifiers.filter(({ identifier_value }) => identifier_value.includes(part.trim().toLowerCase()))}
              rowKey={({ id }) => id}
              columns={columnsOf(setDoomed)}
              empty={
                identifiers.length > 0 ? (
                  <Empty title={WORDS.table.noMatch} />
                ) : (
                  <Empty title={WORDS.identifiers.empty}>
                    <p>{WORDS.identifiers.begin}</p>
                  </Empty>
                )
              }
            />
          </>
        )}
      </Ready>
      {doomed && (
        <Confirm
          title={WORDS.identifiers.deleteOf(doomed.identifier_value)}
          consequence={<p>{WORDS.identifiers.deleteConsequence(countText(doomed.account_ids.length))}</p>}
          action={WORDS.common.delete}
          danger
          onClose={() => setDoomed(undefined)}
          onConfirm={async () => {
            await call('deleteAllowedIdentifier', { params: { identifier_id: doomed.id } })
            tell(WORDS.identifiers.deleted(doomed.identifier_value))
            loaded.reload()
          }}
        />
      )}
    </Page>
  )
}

const columnsOf = (remove: (identifier: Identifier) => void): Column<Identifier>[] => [
  { head: WORDS.identifiers.value, kind: 'wide', cell: (one) => <code>{one.identifier_value}</code> },
  { head: WORDS.identifiers.accounts, kind: 'wide', cell: (one) => <AccountsOf ids={one.account_ids} /> },
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

const AccountsOf = ({ ids }: { ids: readonly string[] }) => (
  <span class="names">
    {ids.slice(0, SHOWN_ACCOUNTS).map((id) => (
      <AccountLink key={id} id={id} />
    ))}
    {ids.length > SHOWN_ACCOUNTS && (
      <span class="quiet">{WORDS.common.more(countText(ids.length - SHOWN_ACCOUNTS))}</span>
    )}
    {ids.length === 0 && <span class="quiet">{WORDS.app.none}</span>}
  </span>
)
