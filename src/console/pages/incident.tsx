/** One incident: how far its revocation, its mails and the CRLs are, and its report as a file. */

import { REVOCATION_FILTERS } from '../../admin/resources/certificates.ts'
import type { Filters } from '../../admin/resources/filter.ts'
import { AdminApiError, lines, type Output } from '../api.ts'
import { AccountLink, Badge, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { WorkButton } from '../components/form.tsx'
import { JobProgress } from '../components/job-progress.tsx'
import { LoadedTable } from '../components/loaded.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { counted, countText, csvOf } from '../format.ts'
import { REVOCATION_REASONS } from '../labels.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'

type Incident = Output<'getIncident'>

const POLL_MS = 1_000
const isOver = ({ job, crl, mails }: Incident) =>
  job?.finished_at !== null && crl.state !== 'waiting' && mails.waiting === 0

export function IncidentPage({ params }: PageProps) {
  const input = { params: { incident_id: params['incident'] ?? '' } }
  const loaded = useApi('getIncident', input, { every: POLL_MS, until: isOver })
  const isDone = loaded.data !== undefined && isOver(loaded.data)
  return (
    <Page title="Incident" actions={!isDone && <Freshness loaded={loaded} />}>
      <Ready loaded={loaded}>
        {(incident) => (
          <>
            <What incident={incident} />
            {incident.job && <Revocation incident={incident} at={loaded.loadedAt} />}
            <Publication crl={incident.crl} />
            {incident.job?.finished_at && <Owners id={incident.id} />}
            <Section title="Report">
              <p class="quiet">What was done, by whom and when, by owner, and each certificate with its outcome.</p>
              <SaveReport id={incident.id} />
            </Section>
          </>
        )}
      </Ready>
    </Page>
  )
}

function What({ incident }: { incident: Incident }) {
  const { filter, created_by, created_at, reason, key_blocked, advised, tell_owners, mails, without_contact } = incident
  const lost = mails.total - mails.waiting - mails.sent - mails.failed
  const fares = [
    `${countText(mails.sent)} sent`,
    mails.waiting > 0 && `${countText(mails.waiting)} waiting`,
    mails.failed > 0 && `${countText(mails.failed)} failed`,
    lost > 0 && `${countText(lost)} no longer recorded`,
  ].filter(Boolean)
  return (
    <Facts
      rows={[
        ['Selected', filterText(filter)],
        ['By', created_by],
        ['Begun', <Time key="begun" at={created_at} />],
        ['Certificates', countText(incident.certificates)],
        ['Reason', incident.revoke && (REVOCATION_REASONS[reason] ?? String(reason))],
        ['Key', key_blocked !== null && (key_blocked ? 'blocked' : 'not blocked')],
        ['Advised to renew', advised !== null && countText(advised)],
        ['Mails', tell_owners && `${fares.join(', ')}, of ${countText(mails.total)}`],
        ['Owners without contact', tell_owners && countText(without_contact)],
      ]}
    />
  )
}

function Revocation({ incident: { job, job_id }, at }: { incident: Incident; at: number | undefined }) {
  if (!job) return null
  const { revoked, left, finished_at } = job
  return (
    <Section title="Revocation">
      <JobProgress job={{ ...job, id: job_id ?? '' }} at={at} />
      <Facts
        rows={[
          ['Revoked', countText(revoked)],
          ['Still valid', left !== null && countText(left)],
          ['Finished', finished_at && <Time key="end" at={finished_at} />],
          [
            'Results',
            <a key="job" href={href(`/bulk-revocations/${job_id}`)}>
              Each certificate
            </a>,
          ],
        ]}
      />
    </Section>
  )
}

const PUBLICATION: Record<Incident['crl']['state'], readonly [tone: 'good' | 'warn' | 'plain', text: string]> = {
  nothing_revoked: ['plain', 'Nothing was revoked, so no CRL has to say it.'],
  revoking: ['warn', 'Not yet: the revocation is under way.'],
  waiting: ['warn', 'Not yet: a list that is served is older than the last revocation.'],
  published: ['good', 'Published: every list that is served contains the last revocation.'],
  not_known: ['plain', 'Not known'],
}

function Publication({ crl: { state, reason, lists } }: { crl: Incident['crl'] }) {
  const [tone, text] = PUBLICATION[state]
  return (
    <Section title="CRL">
      <p role="status">
        <Badge tone={tone}>{state.replaceAll('_', ' ')}</Badge> {text}
        {reason !== null && `: ${reason}.`}
      </p>
      {lists.length > 0 && (
        <Table
          caption="CRLs"
          rows={lists}
          rowKey={({ issuer, shard, shards }) => `${issuer}-${shards}-${shard}`}
          columns={LIST_COLUMNS}
        />
      )}
    </Section>
  )
}

const LIST_COLUMNS: readonly Column<Incident['crl']['lists'][number]>[] = [
  {
    head: 'List',
    cell: ({ issuer, shard, shards }) => (shards === 1 ? issuer : `${issuer}, part ${shard + 1} of ${shards}`),
  },
  { head: 'Number', kind: 'number', cell: ({ number }) => number },
  { head: 'Made', member: 'this_update', kind: 'time' },
  {
    head: 'Last revocation',
    cell: ({ contains }) => <Badge tone={contains ? 'good' : 'warn'}>{contains ? 'contained' : 'not yet'}</Badge>,
  },
]

type Owner = Pick<Output<'listIncidentOwners'>[number], 'account_id' | 'account_name' | 'contacts'>

export const WHO_COLUMNS: readonly Column<Owner>[] = [
  {
    head: 'Owner',
    cell: ({ account_id, account_name }) =>
      account_id === null ? 'No account' : <AccountLink id={account_id} name={account_name} />,
  },
  { head: 'Contacts', kind: 'wide', cell: ({ contacts }) => contacts.join(', ') || 'none' },
]

function Owners({ id }: { id: string }) {
  const loaded = useApi('listIncidentOwners', { params: { incident_id: id } })
  return (
    <LoadedTable
      caption="By owner"
      loaded={loaded}
      rows={(owners) => owners}
      rowKey={({ account_id }) => account_id ?? ''}
      columns={OWNER_COLUMNS}
    />
  )
}

const OWNER_COLUMNS: readonly Column<Output<'listIncidentOwners'>[number]>[] = [
  ...WHO_COLUMNS,
  { head: 'Certificates', kind: 'number', cell: ({ certificates }) => counted(certificates, 'certificate') },
  { head: 'Still valid', member: 'not_revoked', kind: 'number' },
]

type Line = Output<'getIncidentReport'>
type Member<K extends string> = Line extends infer L ? (L extends Record<K, infer V> ? V : never) : never

interface Report {
  incident: Member<'incident'>
  owners: Member<'owner'>[]
  certificates: Member<'certificate'>[]
}

/** More do not fit into the memory of a tab with ease; the command writes them line by line. */
const MOST_CERTIFICATES = 200_000

/** Its sentence is shown; another error is one of the page. */
const unusable = (message: string) => new AdminApiError(200, { message })

/** @throws AdminApiError for a report that is too long, or not whole */
async function readReport(id: string): Promise<Report> {
  let incident: Report['incident'] | undefined
  const rest: Omit<Report, 'incident'> = { owners: [], certificates: [] }
  for await (const text of lines('getIncidentReport', { params: { incident_id: id } })) {
    if (text === '') continue
    const line = JSON.parse(text) as Line
    if ('incident' in line) incident = line.incident
    else if ('owner' in line) rest.owners.push(line.owner)
    else rest.certificates.push(line.certificate)
    if (rest.certificates.length > MOST_CERTIFICATES)
      throw unusable(`It has more than ${MOST_CERTIFICATES} certificates; use: chancery incidents report ${id}`)
  }
  if (!incident) throw unusable('The report came without its incident; try again.')
  const { job } = incident
  if (job?.finished_at && rest.certificates.length < job.total_matched)
    throw unusable('The report was cut off on its way; try again.')
  return { incident, ...rest }
}

const SaveReport = ({ id }: { id: string }) => (
  <div class="actions left">
    <WorkButton text="Save as JSON" work={() => save(id, 'json', 'application/json', jsonOf)} />
    <WorkButton text="Save as text" work={() => save(id, 'txt', 'text/plain', textOf)} />
    <WorkButton text="Save as CSV" work={() => save(id, 'csv', 'text/csv', csvOfReport)} />
  </div>
)

async function save(id: string, ending: string, type: string, write: (report: Report) => string): Promise<void> {
  saveFile(`incident-${id}.${ending}`, type, write(await readReport(id)))
}

const jsonOf = (report: Report) => `${JSON.stringify(report, null, 2)}\n`

const csvOfReport = ({ certificates }: Report) =>
  csvOf([
    ['serial_number', 'names', 'account_id', 'outcome'],
    ...certificates.map(({ serial_number, names, account_id, outcome }) => [
      serial_number,
      names.join(' '),
      account_id,
      outcome,
    ]),
  ])

/** All times are in UTC. */
function textOf({ incident, owners, certificates }: Report): string {
  const { job, crl, mails } = incident
  const facts: [string, string][] = [
    ['Incident', incident.id],
    ['Selected', filterText(incident.filter)],
    ['Begun', `${incident.created_at} by ${incident.created_by}`],
    ['Certificates', String(incident.certificates)],
    ['Reason', incident.revoke ? (REVOCATION_REASONS[incident.reason] ?? String(incident.reason)) : 'nothing revoked'],
    [
      'Revocation',
      job
        ? `${job.left === 0 || job.status !== 'done' ? job.status : 'ended, not all revoked'}: ${job.revoked} revoked, ${job.left ?? 'not yet known how many'} still valid; ended ${job.finished_at ?? 'not yet'}`
        : 'none',
    ],
    ['Key', incident.key_blocked === null ? 'not concerned' : incident.key_blocked ? 'blocked' : 'not blocked'],
    ['Renewal advice', incident.advised === null ? 'none' : `${incident.advised} certificates`],
    [
      'Mails',
      incident.tell_owners
        ? `${mails.sent} sent, ${mails.waiting} waiting, ${mails.failed} failed, of ${mails.total}`
        : 'none',
    ],
    ['CRL', `${crl.state.replaceAll('_', ' ')}${crl.reason === null ? '' : `: ${crl.reason}`}`],
  ]
  return [
    ...facts.map(([name, value]) => `${`${name}:`.padEnd(16)}${value}`),
    ...crl.lists.map(
      ({ issuer, shard, shards, number, this_update, contains }) =>
        `  ${issuer}${shards === 1 ? '' : ` ${shard + 1}/${shards}`} number ${number} of ${this_update}: ${contains ? 'contains the last revocation' : 'not yet'}`,
    ),
    '',
    'By owner',
    ...owners.map(
      ({ account_id, account_name, contacts, certificates: count, not_revoked }) =>
        `  ${account_name ?? account_id ?? 'no account'}  ${count} certificates, ${not_revoked} still valid  ${contacts.join(', ')}`,
    ),
    '',
    'Certificates',
    ...certificates.map(
      ({ serial_number, names, outcome }) => `  ${serial_number}  ${outcome ?? 'waiting'}  ${names.join(' ')}`,
    ),
    '',
  ].join('\n')
}

/** A filter that an incident or a bulk revocation keeps, in words. */
export const filterLabel = (name: string): string => FILTERS[name]?.label ?? name
const FILTERS: Filters = REVOCATION_FILTERS

/** `Exact name: www.example.com`. */
export const filterText = (filter: Readonly<Record<string, string>>): string =>
  Object.entries(filter)
    .map(([name, value]) => `${filterLabel(name)}: ${value}`)
    .join(', ')
