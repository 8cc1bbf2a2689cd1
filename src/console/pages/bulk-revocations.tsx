/** All bulk revocations, the newest first. */

import { type Output, useList } from '../api.ts'
import { Allowed, Badge, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { List } from '../components/table.tsx'
import { countText } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Job = Output<'listBulkRevocations'>[number]

const words = WORDS.bulk
export const jobTone = ({ status, finished_at }: Job) => (status === 'done' ? 'good' : finished_at ? 'plain' : 'warn')

const COLUMNS = [
  {
    head: words.begun,
    kind: 'fixed',
    cell: ({ id, created_at }: Job) => (
      <a href={href(`/bulk-revocations/${id}`)}>
        <Time at={created_at} relative={false} />
      </a>
    ),
  },
  {
    head: words.status,
    kind: 'fixed',
    cell: (job: Job) => <Badge tone={jobTone(job)}>{words.statuses[job.status]}</Badge>,
  },
  { head: words.by, cell: ({ created_by }: Job) => created_by },
  { head: words.matched, kind: 'number', cell: ({ total_matched }: Job) => countText(total_matched) },
  { head: words.revokedCount, kind: 'number', cell: ({ revoked }: Job) => countText(revoked) },
  { head: words.errors, kind: 'number', cell: ({ errors_total }: Job) => countText(errors_total) },
] as const

export function BulkRevocationsPage({ entry }: PageProps) {
  const jobs = useList('listBulkRevocations', {}, entry)
  return (
    <Page
      title={WORDS.pages.bulk}
      actions={
        <Allowed to="bulkRevoke">
          <a class="button" href={href('/bulk-revocations/new')}>
            {words.start}
          </a>
        </Allowed>
      }
    >
      <List
        caption={words.caption}
        columns={COLUMNS}
        list={jobs}
        rowKey={({ id }: Job) => id}
        empty={
          <Empty title={words.empty}>
            <p>{words.emptyHow}</p>
          </Empty>
        }
      />
    </Page>
  )
}
