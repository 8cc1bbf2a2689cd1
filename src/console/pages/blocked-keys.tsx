/** Keys that are never certified again. */

import { useState } from 'preact/hooks'
import { call, type Output } from '../api.ts'
import { Allowed, Badge, Empty, fieldError, Problem, Time } from '../components/basics.tsx'
import { Action, Confirm } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { ListPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { type Column, timeColumn } from '../components/table.tsx'
import { href, type PageProps } from '../router.ts'
import { useList } from '../use-list.ts'

type Key = Output<'listBlockedKeys'>[number]

const columnsOf = (reload: () => void): Column<Key>[] => [
  {
    head: 'SHA-256 of the public key',
    kind: 'wide',
    cell: ({ spki_sha256 }) => (
      <a class="mono" href={href('/certificates', { spki_sha256 })}>
        {spki_sha256}
      </a>
    ),
  },
  { head: 'Source', cell: ({ source }) => <Badge>{source}</Badge> },
  timeColumn('Since', 'blocked_at'),
  {
    head: 'Actions',
    // Keys of a file are unblocked in the file.
    cell: ({ source, spki_sha256 }) =>
      source !== 'file' && (
        <Action
          needs="unblockKey"
          kind="small"
          action="Unblock"
          danger
          consequence={<p>Certificates may be issued for this key again.</p>}
          onConfirm={() => call('unblockKey', { params: { spki_sha256 } }).then(reload)}
        />
      ),
  },
]

export function BlockedKeysPage({ entry }: PageProps) {
  const list = useList('listBlockedKeys', {}, entry)
  const [spki, setSpki] = useState('')
  const [isAsking, setAsking] = useState(false)
  const { submit, error } = useSubmit(async () => {
    setAsking(false)
    await call('blockKey', { body: { spki_sha256: spki.trim() } })
    tell('The key is blocked.')
    setSpki('')
    list.reload()
  })
  return (
    <ListPage
      title="Blocked keys"
      about="No certificate is issued for a blocked key. Revocation for key compromise blocks a key by itself."
      list={list}
      columns={columnsOf(list.reload)}
      rowKey={({ spki_sha256 }) => spki_sha256}
      empty={<Empty title="No blocked keys" />}
    >
      <Allowed to="blockKey">
        <form
          class="narrow"
          onSubmit={(event) => {
            event.preventDefault()
            setAsking(true)
          }}
        >
          <TextField
            label="SHA-256 of the public key"
            help={
              <>
                Hash of the SubjectPublicKeyInfo, in hexadecimal. <a href={href('/incident')}>Incident</a> reads a key,
                CSR or certificate, and blocks its key.
              </>
            }
            value={spki}
            onChange={setSpki}
            error={fieldError(error, 'spki_sha256')}
          />
          {fieldError(error, 'spki_sha256') === undefined && <Problem error={error} />}
          <div class="actions left">
            <button type="submit" disabled={spki.trim() === ''}>
              Block the key
            </button>
          </div>
        </form>
      </Allowed>
      {isAsking && (
        <Confirm
          title="Block the key"
          consequence={
            <>
              <p>Clients with this key get no new certificates. Existing certificates stay valid.</p>
              <Hits spki={spki.trim()} />
            </>
          }
          action="Block the key"
          danger
          onClose={() => setAsking(false)}
          onConfirm={() => submit()}
        />
      )}
    </ListPage>
  )
}

const HITS_SHOWN = 10

/** Certificates that could no longer be renewed. */
function Hits({ spki }: { spki: string }) {
  const { rows, error, isLoading, hasMore, reload } = useList('listCertificates', {
    query: { spki_sha256: spki, status: 'active', limit: String(HITS_SHOWN) },
  })
  if (error !== undefined) return <Problem error={error} retry={reload} />
  if (isLoading) return <Skeleton rows={1} />
  if (rows.length === 0)
    return (
      <p>
        {hasMore
          ? 'The search stopped before it found an active certificate with this key; there may be some.'
          : 'No active certificate has this key.'}
      </p>
    )
  return (
    <>
      <p>Active certificates with this key</p>
      <ul>
        {rows.map(({ id, san_values, not_after }) => (
          <li key={id}>
            {san_values.join(', ')} <Time at={not_after} />
          </li>
        ))}
      </ul>
      <a href={href('/certificates', { spki_sha256: spki })}>All certificates with this key</a>
    </>
  )
}
