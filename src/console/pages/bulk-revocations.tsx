/** Bulk revocations: the list, one job with its progress and its results, and a new one in three steps. */

import { useState } from 'preact/hooks'
import { CERTIFICATE_FILTERS, REVOCATION_FILTERS } from '../../admin/resources/certificates.ts'
import { call, can, type Input, type Output } from '../api.ts'
import { ButtonLink, Empty, Facts, Freshness, Problem, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { FilterField } from '../components/filters.tsx'
import { SelectField, TextField, useForm, useSubmit, WorkButton } from '../components/form.tsx'
import { JobProgress, JobStatus } from '../components/job-progress.tsx'
import { List, listPage } from '../components/list.tsx'
import { Page, Section } from '../components/page.tsx'
import { counted, countText, csvOf } from '../format.ts'
import { KEY_COMPROMISE, REVOCATION_REASONS } from '../labels.ts'
import { withWholeDays } from '../preferences.ts'
import { go, href, type PageProps, type Query } from '../router.ts'
import { allRows, useApi, useList } from '../use-api.ts'
import { filterLabel } from './incident.tsx'

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
function valueText(name: string, value: unknown): string {
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
          ...Object.entries(filter).map(([name, value]) => [filterLabel(name), valueText(name, value)] as const),
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

type Filter = NonNullable<Input<'bulkRevoke'>['body']>['filter']
type DryRun = Extract<Output<'bulkRevoke'>, { dry_run: true }>

type Wanted = Readonly<Record<keyof typeof REVOCATION_FILTERS, string>>
const MEMBERS = Object.keys(REVOCATION_FILTERS) as (keyof Wanted)[]

const wantedBy = (query: Query) => Object.fromEntries(MEMBERS.map((name) => [name, query[name] ?? ''])) as Wanted

/** Filters of the list that led here and that a bulk revocation does not have. */
const missing = (query: Query): string[] =>
  Object.entries(CERTIFICATE_FILTERS).flatMap(([name, { label }]) =>
    query['without']?.split(' ').includes(name) ? [label] : [],
  )

function filterOf(wanted: Wanted): Filter {
  const given = MEMBERS.map((name) => [name, wanted[name].trim()]).filter(([, text]) => text !== '')
  const { serial_numbers: serials, ...others }: Partial<Wanted> = withWholeDays(Object.fromEntries(given))
  const numbers = serials?.split(/[\s,]+/).filter((serial) => serial !== '')
  // An address may have anything as a choice, which the service then refuses.
  return { ...others, ...(numbers && { serial_numbers: numbers }) } as Filter
}

export function NewBulkRevocationPage({ query }: PageProps) {
  const { values: wanted, field } = useForm(wantedBy(query), () => setFound(undefined))
  const [found, setFound] = useState<DryRun>()
  const { submit, error, isBusy } = useSubmit(async () => {
    const reply = await call('bulkRevoke', { body: { filter: filterOf(wanted), dry_run: true } })
    if ('dry_run' in reply) setFound(reply)
  })
  return (
    <Page title="New bulk revocation">
      <form onSubmit={submit}>
        <h2>1. Select certificates</h2>
        <p class="quiet">A certificate has to match all filters. Expired certificates are left out.</p>
        {missing(query).length > 0 && (
          <div class="problem" role="alert">
            <p>
              A bulk revocation cannot filter by: {missing(query).join(', ')}. It may match more than the list that you
              came from.
            </p>
          </div>
        )}
        <div class="filters two-ids">
          {MEMBERS.filter((name) => name !== 'serial_numbers').map((name) => (
            <FilterField key={name} filter={REVOCATION_FILTERS[name]} {...field(name, error, `filter.${name}`)} />
          ))}
        </div>
        <TextField
          label={REVOCATION_FILTERS.serial_numbers.label}
          help="In hexadecimal, one a line; colons do no harm. At most 10,000."
          rows={4}
          {...field('serial_numbers', error, 'filter.serial_numbers')}
        />
        <Problem error={error} />
        <div class="actions left">
          <button type="submit" class="primary" disabled={isBusy}>
            Preview
          </button>
        </div>
      </form>
      {found && <Found found={found} filter={filterOf(wanted)} />}
    </Page>
  )
}

function Found({ found, filter }: { found: DryRun; filter: Filter }) {
  // A key is named because it has leaked, and no other reason blocks it.
  const [reason, setReason] = useState(filter.spki_sha256 === undefined ? '0' : KEY_COMPROMISE)
  const { matching_certificates: count, already_revoked: already, serial_numbers } = found
  const hits = `${counted(count, 'certificate')} would be revoked; ${counted(already, 'more is', 'more are')} already revoked.`
  return (
    <>
      <section class="section" aria-live="polite">
        <h2>2. Preview</h2>
        <p>{count === 0 ? 'No matches that are neither revoked nor expired.' : hits}</p>
        {count > 0 && (
          <details>
            <summary>The first {serial_numbers.length} of them</summary>
            <p class="names">
              {serial_numbers.map((serial) => (
                <a key={serial} href={href(`/certificates/${serial}`)}>
                  <code>{serial}</code>
                </a>
              ))}
            </p>
          </details>
        )}
      </section>
      {count > 0 && (
        <Section title="3. Reason">
          <div class="narrow">
            <SelectField
              label="Reason"
              value={reason}
              onChange={setReason}
              options={Object.entries(REVOCATION_REASONS)}
              help={
                reason === KEY_COMPROMISE
                  ? 'Their keys are blocked for good: the clients need new ones for their next certificates.'
                  : 'Their keys are not blocked: only keyCompromise does that.'
              }
            />
            <Action
              kind="danger"
              text="Revoke them …"
              action="Revoke them"
              typed={String(count)}
              consequence={
                <>
                  <p>{hits}</p>
                  <p>
                    Clients that check the CRL refuse all of them once the next CRL is out. This cannot be undone. The
                    accounts stay: their clients can order again.
                  </p>
                </>
              }
              onConfirm={() => revoke(filter, Number(reason), count)}
            />
          </div>
        </Section>
      )}
    </>
  )
}

/** Its page shows the progress, and can cancel it. */
async function revoke(filter: Filter, reason: number, count: number): Promise<void> {
  const reply = await call('bulkRevoke', { body: { filter, reason, confirm_count: count, wait: false } })
  if ('job_id' in reply) go(`/bulk-revocations/${reply.job_id}`)
  else if ('id' in reply) go(`/bulk-revocations/${reply.id}`)
}
