/** The overview for an operator's morning: alarms first, then figures, each with the list behind it. */

import { titleOfFailure } from '../../domain/failure-advice.ts'
import { can, type OperationId, type Output } from '../api.ts'
import { ButtonLink, Freshness, LinkTo, Ready, Time } from '../components/basics.tsx'
import type { Column } from '../components/columns.tsx'
import { lazyPages } from '../components/lazy-page.tsx'
import { Page } from '../components/page.tsx'
import { TableSection } from '../components/table.tsx'
import { counted, countText, DAY_MS } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { POLL_MS, useApi } from '../use-api.ts'
import { FirstSteps } from './first-steps.tsx'
import { ExpiringAccounts, ExpiryChart, IssuedChart } from './overview-charts.tsx'
import { Health } from './overview-health.tsx'

type Overview = Output<'getOverview'>
type Alarm = Overview['alarms'][number]

/** The page that helps, and what it asks for. */
const HELP: Partial<Record<Alarm['code'], readonly [path: string, needs: OperationId]>> = {
  crl: ['/crl', 'listCrls'],
  signing_stopped: ['/operation', 'getOverview'],
  maintenance: ['/operation', 'getOverview'],
  issuer: ['/settings', 'getSettings'],
  lost_decisions: ['/lost-decisions', 'listLostDecisions'],
  dead_letters: ['/events', 'getWorkers'],
  consumer: ['/events', 'getWorkers'],
  mail: ['/notifications', 'listNotifications'],
  notifications: ['/notifications', 'listNotifications'],
  validations: ['/orders', 'listOrders'],
}
const helpWith = (code: Alarm['code']): string | undefined => {
  const [path, needs] = HELP[code] ?? []
  return needs !== undefined && can(needs) ? path : undefined
}

const { TeamOverviewPage } = lazyPages(() => import('./team-overview.tsx'), 'TeamOverviewPage')

/** The figures of the whole service are closed to a registrar. */
export const OverviewPage = (props: PageProps) =>
  can('getOverview') ? <ServiceOverview /> : <TeamOverviewPage {...props} />

/** A new service has fewer HTTPS certificates of its own, which belong to no account. */
const FEW = 20

function ServiceOverview() {
  const overview = useApi('getOverview', {}, { every: POLL_MS })
  const newest = useApi('listCertificates', { query: { limit: String(FEW) } }, { every: POLL_MS })
  const ofClient = newest.data?.find(({ account_id }) => account_id !== null)
  return (
    <Page
      title="Overview"
      actions={
        <>
          <Freshness loaded={overview} />
          <ButtonLink needs="createEabCredential" to={href('/onboarding')} text="Onboard a team" />
        </>
      }
    >
      {newest.data && (ofClient || newest.data.length < FEW) && <FirstSteps newest={ofClient} />}
      <Ready loaded={overview}>
        {(data) => (
          <>
            {can('approve') && <WaitingApprovals />}
            <Alarms alarms={data.alarms} at={data.at} />
            <Figures data={data} />
            <div class="columns">
              <IssuedChart data={data} />
              <ExpiryChart />
            </div>
            <div class="columns">
              <ExpiringAccounts />
              <div class="section">
                <Issuers data={data} />
                <Failures data={data} />
              </div>
            </div>
            <Health data={data} reload={overview.reload} />
          </>
        )}
      </Ready>
    </Page>
  )
}

/** Requests expire: a user who may decide has to see them without the menu. */
function WaitingApprovals() {
  const { data } = useApi('countApprovals', {}, { every: POLL_MS })
  if (!data || data.for_others === 0) return null
  return (
    <div class="bar warn" role="status">
      <p>{counted(data.for_others, 'request waits', 'requests wait')} for the approval of another person.</p>
      <a href={href('/approvals', { waiting: 'true' })}>View</a>
    </div>
  )
}

function Alarms({ alarms, at }: { alarms: readonly Alarm[]; at: string }) {
  return (
    <section class="section" aria-label="Alarms" aria-live="polite">
      {alarms.length === 0 && (
        <p>
          No alarms. All parts below were looked at: <Time at={at} relative={false} />
        </p>
      )}
      {alarms.map(({ severity, code, message }) => (
        <div key={code + message} class={severity === 'error' ? 'bar bad' : 'bar warn'}>
          <p>
            <strong>{severity === 'error' ? 'Error' : 'Warning'}:</strong> {message}
          </p>
          {helpWith(code) && <a href={href(helpWith(code) ?? '')}>View</a>}
        </div>
      ))}
    </section>
  )
}

interface FigureProps {
  value: number
  /** There are more than were counted. */
  more?: boolean
  label: string
  /** The list of what is counted. */
  to: string
  /** The operation that the list calls. */
  needs?: OperationId
  tone?: 'bad' | 'warn' | false
}

const Figure = ({ value, more, label, to, needs = 'listCertificates', tone }: FigureProps) => (
  <LinkTo needs={needs} to={to} class={tone || undefined}>
    <strong>{more ? `${countText(value)}+` : countText(value)}</strong>
    {label}
  </LinkTo>
)

const sinceOf = ({ since }: Overview) => since.replace('.000', '')

function Figures({ data }: { data: Overview }) {
  const failures = data.failures.reduce((sum, { events }) => sum + events, 0)
  const { notifications, dead_letters, failures_kept: kept, more } = data
  const since = sinceOf(data)
  const ending = (days: number) =>
    href('/certificates', {
      status: 'active',
      sort: 'not_after',
      expiring_before: new Date(Date.parse(data.at) + days * DAY_MS).toISOString(),
    })
  return (
    <nav class="figures" aria-label="Figures">
      <Figure
        value={data.issued_of_day}
        label="issued to clients in 24 hours"
        to={href('/certificates', { issued_after: since })}
      />
      <Figure
        value={kept}
        more={more.failures_kept}
        label={failures > kept ? `failed in 24 hours and kept, of ${countText(failures)}` : 'failed in 24 hours'}
        tone={kept > 0 && 'warn'}
        to={href('/failures', { since })}
        needs="listFailures"
      />
      {data.expiring.map(({ days, certificates, more: hasMore }) => (
        <Figure
          key={days}
          value={certificates}
          more={hasMore}
          label={days === 1 ? 'expiring within a day' : `expiring within ${days} days`}
          to={ending(days)}
        />
      ))}
      <Figure
        value={data.revoked_of_day}
        label="revoked in 24 hours"
        to={href('/certificates', { revoked_after: since })}
      />
      <Figure value={data.revoked} label="revoked in total" to={href('/certificates', { status: 'revoked' })} />
      <Figure
        value={notifications.failed}
        label="mails not delivered"
        tone={notifications.failed > 0 && 'bad'}
        more={more.notifications_failed}
        needs="listNotifications"
        to={href('/notifications', { status: 'failed' })}
      />
      <Figure
        value={dead_letters}
        label="events not delivered"
        tone={dead_letters > 0 && 'bad'}
        more={more.dead_letters}
        to={href('/events')}
        needs="listDeadLetters"
      />
    </nav>
  )
}

const failureColumns = (since: string): readonly Column<Overview['failures'][number]>[] => [
  {
    head: 'Kind',
    kind: 'wide',
    cell: ({ kind }) => (
      <LinkTo needs="listFailures" to={href('/failures', { since, kind })}>
        {titleOfFailure(kind)}
      </LinkTo>
    ),
  },
  { head: 'Count', member: 'events', kind: 'number' },
]

const Failures = ({ data }: { data: Overview }) => (
  <TableSection
    caption="Failures by kind, 24 hours"
    columns={failureColumns(sinceOf(data))}
    rows={data.failures.filter(({ events }) => events > 0)}
    rowKey={({ kind }) => kind}
    empty={<p class="quiet">No failures</p>}
  />
)

const ISSUER_COLUMNS: readonly Column<Overview['issuers'][number]>[] = [
  { head: 'Issuer', member: 'id', kind: 'fixed' },
  { head: 'Subject', member: 'subject', kind: 'wide' },
  { head: 'Expires', kind: 'word', cell: ({ not_after }) => <Time at={not_after} /> },
]

const Issuers = ({ data: { issuers, instance } }: { data: Overview }) => (
  <TableSection
    caption="Issuers"
    columns={ISSUER_COLUMNS}
    rows={issuers}
    rowKey={({ fingerprint }) => fingerprint}
    empty={<p class="quiet">{instance ? 'none' : 'unknown'}</p>}
  />
)
