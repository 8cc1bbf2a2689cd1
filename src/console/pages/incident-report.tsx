/** The report of an incident as a file: JSON for programs, text to print, CSV of the certificates. */

import { AdminApiError, lines, type Output } from '../api.ts'
import { saveFile } from '../components/csv.tsx'
import { WorkButton } from '../components/form.tsx'
import { csvOf } from '../format.ts'
import { REVOCATION_REASONS } from '../labels.ts'
import { filterText } from './incident-words.ts'

type Line = Output<'getIncidentReport'>
type Member<K extends string> = Line extends infer L ? (L extends Record<K, infer V> ? V : never) : never

export interface Report {
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

export const SaveReport = ({ id }: { id: string }) => (
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
export function textOf({ incident, owners, certificates }: Report): string {
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
