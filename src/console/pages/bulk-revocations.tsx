/** Bulk revocations: the list, and one job with its progress and its results. */

import { call, can, type Output } from '../api.ts'
import { ButtonLink, Empty, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { WorkButton } from '../components/form.tsx'
import { JobProgress, JobStatus } from '../components/job-progress.tsx'
import { List, listPage } from '../components/list.tsx'
import { Page, Section } from '../components/page.tsx'
import { counted, countText, csvOf } from '../format.ts'
import { REVOCATION_REASONS } from '../labels.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { allRows, useList } from '../use-list.ts'
import { filterLabel } from './incident-words.ts'

export const BulkRevocationsPage = listPage('listBulkRevocations', {
  title: 'Bulk revocations',
  actions: () => <ButtonLink needs="bulkRevoke" to={href('/bulk-revocations/new')} text="New bulk revocation" />,
  columns: [
    { head: 'Started', member: 'created_at', kind: 'instant', to: ({ id }) => href(`/bulk-revocations/${id}`) },
    { head: 'Status', kind: 'fixed', cell: (job) => <JobStatus {...job} /> },
    { head: 'By', member: 'created_by' },
    { head: 'Certificates', member: 'total_matched', kind: 'number' },
    { head: 'Revoked', member: 'revoked', kind: 'number' },
    { head: 'Not revoked by it', member: 'errors_total', kind: 'number' },
  ],
  empty: () => (
    <Empty title="No bulk revocations yet">
      {can('bulkRevoke') && <p>Start on the page Certificates, with the button “Revoke many …”.</p>}
    </Empty>
  ),
})

type Job = Output<'getBulkRevocation'>
type Result = Output<'listBulkRevocationCertificates'>[number]

const RESULT_COLUMNS: readonly Column<Result>[] = [
  {
    head: 'Serial number',
    member: 'serial_number',
    to: ({ serial_number }) => href(`/certificates/${serial_number}`),
  },
  { head: 'Names', kind: 'wide', cell: ({ names }) => names.join(', ') || 'not known: no longer stored' },
  { head: 'Outcome', kind: 'wide', cell: ({ outcome }) => outcome ?? 'waiting' },
]

export function BulkRevocationPage({ params, entry }: PageProps) {
  const job = { params: { job_id: params['job'] ?? '' } }
  const isFinished = ({ finished_at }: Job) => finished_at !== null
  const loaded = useApi('getBulkRevocation', job, { every: 1_000, until: isFinished })
  const isOver = loaded.data !== undefined && isFinished(loaded.data)
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

/** The results are shown when the job has ended; earlier they would be outdated at once. */
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
    consequence={`Stops after the current batch. ${counted(revoked, 'certificate is', 'certificates are')} already revoked and stay so; the next CRL lists them.`}
    onConfirm={() => call('cancelBulkRevocation', { params: { job_id: id } })}
    done="The bulk revocation is cancelled."
    onDone={onCancelled}
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

/** Saves all results, page after page: the list on the screen may hold a part. */
function SaveResults({ job }: { job: { params: { job_id: string } } }) {
  const save = async () =>
    saveFile(`bulk-revocation-${job.params.job_id}.csv`, 'text/csv', csvOf(await allResults(job)))
  return (
    <p>
      <WorkButton kind="small" text="Save all results as CSV" busyText="Loading …" work={save} />
    </p>
  )
}

async function allResults(job: { params: { job_id: string } }): Promise<(string | null)[][]> {
  const rows: (string | null)[][] = [['serial_number', 'names', 'outcome']]
  for await (const { serial_number, names, outcome } of allRows('listBulkRevocationCertificates', job))
    rows.push([serial_number, names.join(' '), outcome])
  return rows
}
