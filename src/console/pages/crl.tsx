/** The CRLs that are served, and new ones on request. */

import { call, type Output, useApi } from '../api.ts'
import { Allowed, Badge, Empty, Problem, Ready, Time } from '../components/basics.tsx'
import { useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'
import { WORDS } from '../words.ts'

type List = Output<'listCrls'>['lists'][number]

const COLUMNS: readonly Column<List>[] = [
  {
    head: WORDS.crl.issuer,
    cell: ({ issuer, shard, shards }) => (shards > 1 ? `${issuer}, ${shard + 1} / ${shards}` : issuer),
  },
  { head: WORDS.crl.number, kind: 'fixed', cell: ({ number }) => <code>{number}</code> },
  { head: WORDS.crl.entries, kind: 'number', cell: ({ entries }) => countText(entries) },
  { head: WORDS.crl.bytes, kind: 'number', cell: ({ bytes }) => countText(bytes) },
  { head: WORDS.crl.thisUpdate, kind: 'fixed', cell: ({ this_update }) => <Time at={this_update} relative={false} /> },
  { head: WORDS.crl.nextUpdate, kind: 'fixed', cell: ({ next_update }) => <Time at={next_update} /> },
]

const POLL_MS = 10_000

export function CrlPage() {
  const loaded = useApi('listCrls', {}, { every: POLL_MS })
  const { submit, error, isBusy } = useSubmit(async () => {
    const built = await call('rebuildCrl', {})
    tell(built.error === null ? WORDS.crl.rebuilt : built.error, built.error === null ? 'good' : 'bad')
    loaded.reload()
  })
  const { data } = loaded
  return (
    <Page
      title={WORDS.pages.crl}
      actions={
        <Allowed to="rebuildCrl">
          {data?.enabled && (
            <button type="button" disabled={isBusy} onClick={() => submit()}>
              {WORDS.crl.rebuild}
            </button>
          )}
        </Allowed>
      }
    >
      {isBusy && (
        <p role="status">
          {WORDS.crl.rebuilding} <progress aria-label={WORDS.crl.rebuilding} />
        </p>
      )}
      <Problem error={error} />
      <Ready loaded={loaded}>
        {({ enabled, stale, error: obstacle, lists }) =>
          enabled ? (
            <>
              <p>
                {stale ? (
                  <Badge tone="bad">{WORDS.crl.stale}</Badge>
                ) : (
                  lists.length > 0 && <Badge tone="good">{WORDS.crl.fresh}</Badge>
                )}{' '}
                {obstacle}
              </p>
              <Table
                caption={WORDS.pages.crl}
                rows={lists}
                columns={COLUMNS}
                rowKey={({ issuer, shard, shards }) => `${issuer} ${shard} ${shards}`}
                empty={<Empty title={WORDS.crl.none} />}
              />
            </>
          ) : (
            <Empty title={WORDS.crl.off}>
              <p>{WORDS.crl.begin}</p>
            </Empty>
          )
        }
      </Ready>
    </Page>
  )
}
