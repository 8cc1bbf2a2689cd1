/** One incident: how far its revocation, its mails and the CRLs are, and its report. */

import { useState } from 'preact/hooks'
import type { Output } from '../api.ts'
import { AccountLink, Badge, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { JobProgress } from '../components/job-progress.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { REVOCATION_REASONS } from '../labels.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { SaveReport } from './incident-report.tsx'
import { filterText } from './incident-words.ts'

type Incident = Output<'getIncident'>

const POLL_MS = 1_000
const isOver = ({ job, crl, mails }: Incident) =>
  job?.finished_at !== null && crl.state !== 'waiting' && mails.waiting === 0

export function IncidentPage({ params }: PageProps) {
  const input = { params: { incident_id: params['incident'] ?? '' } }
  const [isDone, setDone] = useState(false)
  const loaded = useApi('getIncident', input, isDone ? {} : { every: POLL_MS })
  if (loaded.data && isOver(loaded.data) && !isDone) setDone(true)
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
  { head: 'Made', kind: 'fixed', cell: ({ this_update }) => <Time at={this_update} /> },
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
    <Section title="By owner">
      <Ready loaded={loaded}>
        {(owners) => (
          <Table<Output<'listIncidentOwners'>[number]>
            caption="By owner"
            rows={owners}
            rowKey={({ account_id }) => account_id ?? ''}
            columns={[
              ...WHO_COLUMNS,
              {
                head: 'Certificates',
                kind: 'number',
                cell: ({ certificates }) => plural(countText(certificates), 'certificate'),
              },
              { head: 'Still valid', kind: 'number', cell: ({ not_revoked }) => countText(not_revoked) },
            ]}
          />
        )}
      </Ready>
    </Section>
  )
}
