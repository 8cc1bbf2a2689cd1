/** All bulk revocations, the newest first. */

import { type Output, useList } from '../api.ts'
import { Allowed, Badge, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { List } from '../components/table.tsx'
import { countText } from '../format.ts'
import { BULK_REVOCATION_STATUSES } from '../labels.ts'
import { href, type PageProps } from '../router.ts'

type Job = Output<'listBulkRevocations'>[number]

export const jobTone = ({ status, finished_at }: Job) => (status === 'done' ? 'good' : finished_at ? 'plain' : 'warn')

const COLUMNS = [
  {
    head: 'Started',
    kind: 'fixed',
    cell: ({ id, created_at }: Job) => (
      <a href={href(`/bulk-revocations/${id}`)}>
        <Time at={created_at} relative={false} />
      </a>
    ),
  },
  {
    head: 'Status',
    kind: 'fixed',
    cell: (job: Job) => <Badge tone={jobTone(job)}>{BULK_REVOCATION_STATUSES[job.status]}</Badge>,
  },
  { head: 'By', cell: ({ created_by }: Job) => created_by },
  { head: 'Certificates', kind: 'number', cell: ({ total_matched }: Job) => countText(total_matched) },
  { head: 'Revoked', kind: 'number', cell: ({ revoked }: Job) => countText(revoked) },
  { head: 'Not revoked', kind: 'number', cell: ({ errors_total }: Job) => countText(errors_total) },
] as const

export function BulkRevocationsPage({ entry }: PageProps) {
  const jobs = useList('listBulkRevocations', {}, entry)
  return (
    <Page
      title="Bulk revocations"
      actions={
        <Allowed to="bulkRevoke">
          <a class="button" href={href('/bulk-revocations/new')}>
            New bulk revocation
          </a>
        </Allowed>
      }
    >
      <List
        caption="Bulk revocations"
        columns={COLUMNS}
        list={jobs}
        rowKey={({ id }: Job) => id}
        empty={
          <Empty title="No bulk revocations yet">
            <p>Start on the page Certificates, with the button “Revoke many …”.</p>
          </Empty>
        }
      />
    </Page>
  )
}
