/** The CRLs that are served, and new ones on request. */

import { call, type Output, useApi } from '../api.ts'
import { Allowed, Badge, Empty, Problem, Ready, Time } from '../components/basics.tsx'
import { useSubmit } from '../components/form.tsx'
import { Page } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { countText } from '../format.ts'

type List = Output<'listCrls'>['lists'][number]

const COLUMNS: readonly Column<List>[] = [
  {
    head: 'Issuer',
    cell: ({ issuer, shard, shards }) => (shards > 1 ? `${issuer}, ${shard + 1} / ${shards}` : issuer),
  },
  { head: 'Number', kind: 'fixed', cell: ({ number }) => <code>{number}</code> },
  { head: 'Entries', kind: 'number', cell: ({ entries }) => countText(entries) },
  { head: 'Bytes', kind: 'number', cell: ({ bytes }) => countText(bytes) },
  { head: 'This update', kind: 'fixed', cell: ({ this_update }) => <Time at={this_update} relative={false} /> },
  { head: 'Next update', kind: 'fixed', cell: ({ next_update }) => <Time at={next_update} /> },
]

const POLL_MS = 10_000

export function CrlPage() {
  const loaded = useApi('listCrls', {}, { every: POLL_MS })
  const { submit, error, isBusy } = useSubmit(async () => {
    const built = await call('rebuildCrl', {})
    tell(built.error === null ? 'The CRLs are rebuilt.' : built.error, built.error === null ? 'good' : 'bad')
    loaded.reload()
  })
  const { data } = loaded
  return (
    <Page
      title="CRL"
      actions={
        <Allowed to="rebuildCrl">
          {data?.enabled && (
            <button type="button" disabled={isBusy} onClick={() => submit()}>
              Rebuild now
            </button>
          )}
        </Allowed>
      }
    >
      {isBusy && (
        <p role="status">
          The CRLs are being rebuilt. This takes up to 20 seconds, and may continue in the background.{' '}
          <progress aria-label="The CRLs are being rebuilt. This takes up to 20 seconds, and may continue in the background." />
        </p>
      )}
      <Problem error={error} />
      <Ready loaded={loaded}>
        {({ enabled, stale, error: obstacle, lists }) =>
          enabled ? (
            <>
              <p>
                {stale ? <Badge tone="bad">stale</Badge> : lists.length > 0 && <Badge tone="good">up to date</Badge>}{' '}
                {obstacle}
              </p>
              <Table
                caption="CRL"
                rows={lists}
                columns={COLUMNS}
                rowKey={({ issuer, shard, shards }) => `${issuer} ${shard} ${shards}`}
                empty={<Empty title="No CRL yet" />}
              />
            </>
          ) : (
            <Empty title="No CRL is published.">
              <p>Set crl.enabled and ca.crl_url in the configuration.</p>
            </Empty>
          )
        }
      </Ready>
    </Page>
  )
}
