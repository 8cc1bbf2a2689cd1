/** Bulk revocations: the list, and one job with its progress and its results. */

import { useState } from 'preact/hooks'
import { call, can, type Output } from '../api.ts'
import { ButtonLink, Empty, Facts, Freshness, Problem, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { useSubmit } from '../components/form.tsx'
import { JobProgress, JobStatus } from '../components/job-progress.tsx'
import { List, ListPage } from '../components/list.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { countText, csvOf, plural } from '../format.ts'
import { REVOCATION_REASONS } from '../labels.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { allRows, useList } from '../use-list.ts'
import { filterLabel } from './incident-words.ts'

type ListedJob = Output<'listBulkRevocations'>[number]

const COLUMNS: readonly Column<ListedJob>[] = [
  {
    head: 'Started',
    kind: 'fixed',
    cell: ({ id, created_at }) => (
      <a href={href(`/bulk-revocations/${id}`)}>
        <Time at={created_at} relative={false} />
      </a>
    ),
  },
  {
    head: 'Status',
    kind: 'fixed',
    cell: (job) => <JobStatus {...job} />,
  },
  { head: 'By', cell: ({ created_by }) => created_by },
  { head: 'Certificates', kind: 'number', cell: ({ total_matched }) => countText(total_matched) },
  { head: 'Revoked', kind: 'number', cell: ({ revoked }) => countText(revoked) },
  { head: 'Not revoked by it', kind: 'number', cell: ({ errors_total }) => countText(errors_total) },
]

export function BulkRevocationsPage({ entry }: PageProps) {
  const jobs = useList('listBulkRevocations', {}, entry)
  return (
    <ListPage
      title="Bulk revocations"
      actions={
        <ButtonLink needs="bulkRevoke" to={href('/bulk-revocations/new')}>
          New bulk revocation
        </ButtonLink>
      }
      columns={COLUMNS}
      list={jobs}
      empty={
        <Empty title="No bulk revocations yet">
          {can('bulkRevoke') && <p>Start on the page Certificates, with the button “Revoke many …”.</p>}
        </Empty>
      }
    />
  )
}

type Job = Output<'getBulkRevocation'>
type Result = Output<'listBulkRevocationCertificates'>[number]

const RESULT_COLUMNS: readonly Column<Result>[] = [
  {
    head: 'Serial number',
    cell: ({ serial_number }) => <a href={href(`/certificates/${serial_number}`)}>{serial_number}</a>,
  },
  { head: 'Names', kind: 'wide', cell: ({ names }) => names.join(', ') || 'not known: no longer stored' },
  { head: 'Outcome', kind: 'wide', cell: ({ outcome }) => outcome ?? 'waiting' },
]

export function BulkRevocationPage({ params, entry }: PageProps) {
  const job = { params: { job_id: params['job'] ?? '' } }
  const [isOver, setOver] = useState(false)
  const loaded = useApi('getBulkRevocation', job, isOver ? {} : { every: 1_000 })
  if (loaded.data && loaded.data.finished_at !== null && !isOver) setOver(true)
  return (
    <Page
      title="Bulk revocation"
      actions={
        !isOver && (
          <>
            <Freshness loaded={loaded} />
            {loaded.data && <Cancel job={loaded.data} onCancelled={loaded.reload} />}
          </>
        )
      }
    >
      <Ready loaded={loaded}>{(data) => <Progress job={data} at={loaded.loadedAt} />}</Ready>
      <Section title="Results">
        {isOver ? <Results job={job} entry={entry} /> : <p class="quiet">Listed when the job has finished.</p>}
      </Section>
    </Page>
  )
}

/** Shown when the job has ended; earlier they would be outdated at once. */
function Results({ job, entry }: { job: { params: { job_id: string } }; entry: number }) {
  const list = useList('listBulkRevocationCertificates', job, entry)
  return (
    <>
      <List caption="Results" columns={RESULT_COLUMNS} list={list} rowKey={({ certificate_id }) => certificate_id} />
      <SaveResults job={job} />
    </>
  )
}

/** Serial numbers are in the list below. Midnight is shown as the day that begins or ends then. */
function filterText(name: string, value: unknown): string {
  if (Array.isArray(value)) return countText(value.length)
  const text = String(value)
  if (!/T00:00:00(?:\.0+)?Z$/.test(text)) return text
  return new Date(Date.parse(text) - (name === 'issued_before' ? 1 : 0)).toISOString().slice(0, 10)
}

const Cancel = ({ job: { id, revoked }, onCancelled }: { job: Job; onCancelled: () => void }) => (
  <Action
    needs="cancelBulkRevocation"
    kind="danger"
    action="Cancel the rest"
    consequence={
      <p>
        Stops after the current batch. {plural(countText(revoked), 'certificate is', 'certificates are')} already
        revoked and stay so; the next CRL lists them.
      </p>
    }
    onConfirm={async () => {
      await call('cancelBulkRevocation', { params: { job_id: id } })
      tell('The bulk revocation is cancelled.')
      onCancelled()
    }}
  />
)

function Progress({ job, at }: { job: Job; at: number | undefined }) {
  const { revoked, errors_total, left, reason, created_by, created_at, finished_at, filter } = job
  return (
    <div class="section">
      <JobProgress job={job} at={at} />
      <Facts
        rows={[
          ['Revoked', countText(revoked)],
          ['Not revoked by it', countText(errors_total)],
          ['Still valid', left !== null && countText(left)],
          ['Reason', REVOCATION_REASONS[reason] ?? String(reason)],
          ...Object.entries(filter).map(([name, value]) => [filterLabel(name), filterText(name, value)] as const),
          ['By', created_by],
          ['Started', <Time at={created_at} />],
          ['Finished', finished_at && <Time at={finished_at} />],
        ]}
      />
    </div>
  )
}

/** All of them, page after page: the list on the screen may hold a part. */
function SaveResults({ job }: { job: { params: { job_id: string } } }) {
  const { submit, error, isBusy } = useSubmit(async () =>
    saveFile(`bulk-revocation-${job.params.job_id}.csv`, 'text/csv', csvOf(await allResults(job))),
  )
  return (
    <>
      <Problem error={error} />
      <p>
        <button type="button" class="small" disabled={isBusy} onClick={submit}>
          {isBusy ? 'Loading …' : 'Save all results as CSV'}
        </button>
      </p>
    </>
  )
}

async function allResults(job: { params: { job_id: string } }): Promise<(string | null)[][]> {
  const rows: (string | null)[][] = [['serial_number', 'names', 'outcome']]
  for await (const { serial_number, names, outcome } of allRows('listBulkRevocationCertificates', job))
    rows.push([serial_number, names.join(' '), outcome])
  return rows
}
