/** Keys that are never certified again. */

import { useState } from 'preact/hooks'
import { call, can, type Output, useList } from '../api.ts'
import { Allowed, Badge, Empty, fieldError, Problem, Time } from '../components/basics.tsx'
import { Confirm } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Key = Output<'listBlockedKeys'>[number]

const columnsOf = (unblock: (key: Key) => void): Column<Key>[] => [
  {
    head: WORDS.blockedKeys.key,
    kind: 'wide',
    cell: ({ spki_sha256 }) => (
      <a class="mono" href={href('/certificates', { spki_sha256 })}>
        {spki_sha256}
      </a>
    ),
  },
  { head: WORDS.blockedKeys.source, cell: ({ source }) => <Badge>{WORDS.blockedKeys.sources[source]}</Badge> },
  { head: WORDS.blockedKeys.at, kind: 'fixed', cell: ({ blocked_at }) => <Time at={blocked_at} /> },
  {
    head: WORDS.common.actions,
    // Those of a file are taken out there.
    cell: (key) =>
      can('unblockKey') &&
      key.source !== 'file' && (
        <button type="button" class="small" onClick={() => unblock(key)}>
          {WORDS.blockedKeys.unblock}
        </button>
      ),
  },
]

export function BlockedKeysPage({ entry }: PageProps) {
  const list = useList('listBlockedKeys', {}, entry)
  const [spki, setSpki] = useState('')
  const [freed, setFreed] = useState<Key>()
  const [isAsking, setAsking] = useState(false)
  const { submit, error } = useSubmit(async () => {
    setAsking(false)
    await call('blockKey', { body: { spki_sha256: spki.trim() } })
    tell(WORDS.blockedKeys.blocked)
    setSpki('')
    list.reload()
  })
  return (
    <Page title={WORDS.pages.blockedKeys}>
      <p class="quiet">{WORDS.blockedKeys.about}</p>
      <Allowed to="blockKey">
        <form
          class="narrow"
          onSubmit={(event) => {
            event.preventDefault()
            setAsking(true)
          }}
        >
          <TextField
            label={WORDS.blockedKeys.key}
            help={WORDS.blockedKeys.help}
            value={spki}
            onChange={setSpki}
            error={fieldError(error, 'spki_sha256')}
          />
          {fieldError(error, 'spki_sha256') === undefined && <Problem error={error} />}
          <div class="actions left">
            <button type="submit" disabled={spki.trim() === ''}>
              {WORDS.blockedKeys.block}
            </button>
          </div>
        </form>
      </Allowed>
      <List
        caption={WORDS.pages.blockedKeys}
        list={list}
        columns={columnsOf(setFreed)}
        rowKey={({ spki_sha256 }) => spki_sha256}
        empty={<Empty title={WORDS.blockedKeys.empty} />}
      />
      {isAsking && (
        <Confirm
          title={WORDS.blockedKeys.block}
          consequence={
            <>
              <p>{WORDS.blockedKeys.blockConsequence}</p>
              <Hits spki={spki.trim()} />
            </>
          }
          action={WORDS.blockedKeys.block}
          danger
          onClose={() => setAsking(false)}
          onConfirm={() => submit()}
        />
      )}
      {freed && (
        <Confirm
          title={WORDS.blockedKeys.unblock}
          consequence={<p>{WORDS.blockedKeys.unblockConsequence}</p>}
          action={WORDS.blockedKeys.unblock}
          danger
          onClose={() => setFreed(undefined)}
          onConfirm={async () => {
            await call('unblockKey', { params: { spki_sha256: freed.spki_sha256 } })
            list.reload()
          }}
        />
      )}
    </Page>
  )
}

const HITS_SHOWN = 10

/** Whom the block would stop from renewing. */
function Hits({ spki }: { spki: string }) {
  const { rows, error, isLoading, hasMore, reload } = useList('listCertificates', {
    query: { spki_sha256: spki, status: 'active', limit: String(HITS_SHOWN) },
  })
  if (error !== undefined) return <Problem error={error} retry={reload} />
  if (isLoading) return <p class="quiet">{WORDS.table.loading}</p>
  if (rows.length === 0) return <p>{hasMore ? WORDS.blockedKeys.hitsCut : WORDS.blockedKeys.hitsNone}</p>
  return (
    <>
      <p>{WORDS.blockedKeys.hits}</p>
      <ul>
        {rows.map(({ id, san_values, not_after }) => (
          <li key={id}>
            {san_values.join(', ')} <Time at={not_after} />
          </li>
        ))}
      </ul>
      <a href={href('/certificates', { spki_sha256: spki })}>{WORDS.blockedKeys.hitsMore}</a>
    </>
  )
}
