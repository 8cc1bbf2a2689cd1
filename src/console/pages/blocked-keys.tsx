/** Keys that are never certified again. */

import { useState } from 'preact/hooks'
import { call, can } from '../api.ts'
import { Badge, Empty, fieldError, Problem, Skeleton, Time } from '../components/basics.tsx'
import { Action, Confirm } from '../components/dialog.tsx'
import { TextField, useSubmit } from '../components/form.tsx'
import { listPage } from '../components/list.tsx'
import { tell } from '../components/page.tsx'
import { href } from '../router.ts'
import { useList } from '../use-api.ts'

export const BlockedKeysPage = listPage('listBlockedKeys', {
  title: 'Blocked keys',
  about: 'No certificate is issued for a blocked key. Revocation for key compromise blocks a key by itself.',
  rowKey: ({ spki_sha256 }) => spki_sha256,
  columns: (reload) => [
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
    { head: 'Since', member: 'blocked_at', kind: 'time' },
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
            consequence="Certificates may be issued for this key again."
            onConfirm={() => call('unblockKey', { params: { spki_sha256 } })}
            onDone={reload}
          />
        ),
    },
  ],
  empty: <Empty title="No blocked keys" />,
  above: (reload) => can('blockKey') && <BlockKey onBlocked={reload} />,
})

function BlockKey({ onBlocked }: { onBlocked: () => void }) {
  const [spki, setSpki] = useState('')
  const [isAsking, setAsking] = useState(false)
  const { submit, error } = useSubmit(async () => {
    setAsking(false)
    await call('blockKey', { body: { spki_sha256: spki.trim() } })
    tell('The key is blocked.')
    setSpki('')
    onBlocked()
  })
  const refusal = fieldError(error, 'spki_sha256')
  return (
    <>
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
          error={refusal}
        />
        {refusal === undefined && <Problem error={error} />}
        <div class="actions left">
          <button type="submit" disabled={spki.trim() === ''}>
            Block the key
          </button>
        </div>
      </form>
      {isAsking && (
        <Confirm
          action="Block the key"
          danger
          consequence={
            <>
              <p>Clients with this key get no new certificates. Existing certificates stay valid.</p>
              <Hits spki={spki.trim()} />
            </>
          }
          onClose={() => setAsking(false)}
          onConfirm={() => submit()}
        />
      )}
    </>
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
