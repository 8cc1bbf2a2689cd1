/** The overview for an operator's morning: alarms first, then figures, each with the list behind it. */

import { titleOfFailure } from '../../domain/failure-advice.ts'
import { can, type OperationId, type Output } from '../api.ts'
import { Badge, ButtonLink, Facts, Freshness, LinkTo, Ready, Time } from '../components/basics.tsx'
import { Chart, ChartFrame } from '../components/chart.tsx'
import { lazyPages } from '../components/lazy-page.tsx'
import { Page, Section } from '../components/page.tsx'
import { type Column, TableSection } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { instantText } from '../time-zone.ts'
import { POLL_MS, useApi } from '../use-api.ts'
import { ExpiringAccounts } from './expiring-accounts.tsx'
import { FirstSteps } from './first-steps.tsx'
import { SwitchButton, switchesOf } from './switches.tsx'

type Overview = Output<'getOverview'>
type Alarm = Overview['alarms'][number]

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const CHART_DAYS = 60
/** It is counted from many rows, and days change slowly. */
const CHART_POLL_MS = 60_000

/** The service counts no further (`MOST_COUNTED` of overview-endpoints.ts). */
const MOST_COUNTED = 10_000

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
          <ButtonLink needs="createEabCredential" to={href('/onboarding')}>
            Onboard a team
          </ButtonLink>
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
            <Parts data={data} reload={overview.reload} />
          </>
        )}
      </Ready>
    </Page>
  )
}

/** Requests expire: who may decide has to see them without the menu. */
function WaitingApprovals() {
  const { data } = useApi('countApprovals', {}, { every: POLL_MS })
  if (!data || data.for_others === 0) return null
  return (
    <div class="bar warn" role="status">
      <p>{plural(countText(data.for_others), 'request waits', 'requests wait')} for the approval of another person.</p>
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
  /** Not all were counted. */
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

const dayText = (at: number) => new Date(at).toISOString().slice(0, 10)

/** The service counts events by the hour: the first of the last 24 hours. */
const firstHourOf = ({ at }: Overview) =>
  new Date((Math.floor(Date.parse(at) / HOUR_MS) - 23) * HOUR_MS).toISOString().replace('.000', '')

function Figures({ data }: { data: Overview }) {
  const failures = data.failures.reduce((sum, { events }) => sum + events, 0)
  const { notifications, dead_letters, failures_kept: kept } = data
  const since = firstHourOf(data)
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
        more={kept >= MOST_COUNTED}
        label={failures > kept ? `failed in 24 hours and kept, of ${countText(failures)}` : 'failed in 24 hours'}
        tone={kept > 0 && 'warn'}
        to={href('/failures', { since })}
        needs="listFailures"
      />
      {data.expiring.map(({ days, certificates, more }) => (
        <Figure
          key={days}
          value={certificates}
          more={more}
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
        more={notifications.failed >= MOST_COUNTED}
        needs="listNotifications"
        to={href('/notifications', { status: 'failed' })}
      />
      <Figure
        value={dead_letters}
        label="events not delivered"
        tone={dead_letters > 0 && 'bad'}
        more={dead_letters >= MOST_COUNTED}
        to={href('/events')}
        needs="listDeadLetters"
      />
    </nav>
  )
}

/** Hours without a certificate are left out of the reply. */
function IssuedChart({ data: { at, issued, issued_of_day } }: { data: Overview }) {
  const counts = new Map(issued.map(({ hour, certificates }) => [Date.parse(hour), certificates]))
  const last = Math.floor(Date.parse(at) / HOUR_MS) * HOUR_MS
  const hours = Array.from({ length: 24 }, (_, index) => last - (23 - index) * HOUR_MS)
  const most = [...issued].sort((a, b) => b.certificates - a.certificates)[0]
  return (
    <Chart
      title="Issued per hour"
      summary={
        most
          ? `${plural(countText(issued_of_day), 'certificate')} in the last 24 hours, at most ${countText(most.certificates)} in an hour (${instantText(most.hour).slice(11)}).`
          : 'No certificate was issued to a client in the last 24 hours.'
      }
      at={hours.map((hour) => hour / 1000)}
      series={[{ label: 'Certificates', color: '--series-1', values: hours.map((hour) => counts.get(hour) ?? 0) }]}
    />
  )
}

function ExpiryChart() {
  const loaded = useApi('getExpiryHistogram', { query: { days: String(CHART_DAYS) } }, { every: CHART_POLL_MS })
  return (
    <ChartFrame title="Expirations by day" loaded={loaded}>
      {(data) => <ExpiryPlot data={data} />}
    </ChartFrame>
  )
}

function ExpiryPlot({ data: { is_estimate: isEstimate, buckets } }: { data: Output<'getExpiryHistogram'> }) {
  const counts = new Map<string, number>()
  for (const { day, certificates } of buckets) counts.set(day, (counts.get(day) ?? 0) + certificates)
  const days = Array.from({ length: CHART_DAYS }, (_, index) => dayText(Date.now() + index * DAY_MS))
  const countOf = (day: string) => counts.get(day) ?? 0
  const all = days.reduce((sum, day) => sum + countOf(day), 0)
  const most = days.reduce((best, day) => (countOf(day) > countOf(best) ? day : best), days[0] ?? '')
  const summary =
    all === 0
      ? 'No unrevoked certificate expires within 60 days.'
      : `Within 60 days, ${plural(countText(all, isEstimate), 'unrevoked certificate expires', 'unrevoked certificates expire')}, at most ${countText(countOf(most), isEstimate)} on a day (${most}).`
  return (
    <Chart
      title="Expirations by day"
      summary={isEstimate ? `${summary} There are many: the numbers are estimated from a sample.` : summary}
      isEstimate={isEstimate}
      listOf={toCertificatesOfDay}
      byDay
      at={days.map((day) => Date.parse(day) / 1000)}
      series={[{ label: 'Certificates', color: '--series-2', values: days.map(countOf) }]}
    />
  )
}

function toCertificatesOfDay(seconds: number): string {
  const [expiring_after, expiring_before] = [0, DAY_MS].map((ms) => new Date(seconds * 1000 + ms).toISOString())
  return href('/certificates', { status: 'active', sort: 'not_after', expiring_after, expiring_before })
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
  { head: 'Count', kind: 'number', cell: ({ events }) => countText(events) },
]

const Failures = ({ data }: { data: Overview }) => (
  <TableSection
    caption="Failures by kind, 24 hours"
    columns={failureColumns(firstHourOf(data))}
    rows={data.failures.filter(({ events }) => events > 0)}
    rowKey={({ kind }) => kind}
    empty={<p class="quiet">No failures</p>}
  />
)

const ISSUER_COLUMNS: readonly Column<Overview['issuers'][number]>[] = [
  { head: 'Issuer', kind: 'fixed', cell: ({ id }) => id },
  { head: 'Subject', kind: 'wide', cell: ({ subject }) => subject },
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

const state = (status: string) => <Badge tone={status === 'ok' || status === 'ready' ? 'good' : 'bad'}>{status}</Badge>

function Parts({ data, reload }: { data: Overview; reload: () => void }) {
  const { instance, version } = data
  const since = (at: string | null, by: string | null) =>
    at !== null && (
      <span class="quiet">
        {' '}
        since {instantText(at)} by {by ?? '–'}
      </span>
    )
  return (
    <Section title="Health of this instance">
      <Facts
        rows={[
          ['Version', version],
          ['Database', instance ? <DatabaseState instance={instance} /> : 'unknown'],
          [
            'Signer',
            instance ? (
              <>
                {state(instance.ca_backend.status)} <span class="quiet">{instance.ca_backend.reason}</span>
              </>
            ) : (
              'unknown'
            ),
          ],
          [
            'HSM tokens',
            instance !== null &&
              instance.ca_backend.tokens.length > 0 &&
              instance.ca_backend.tokens.map(({ issuer, status }) => (
                <span key={issuer}>
                  {issuer} {state(status)}{' '}
                </span>
              )),
          ],
          ...data.other_cas.map((ca) => [`CA ${ca.backend}`, <OtherCaState ca={ca} />] as const),
          ['Name servers', instance?.dns_resolver && state(instance.dns_resolver)],
          ['CRL', <CrlState crl={data.crl} />],
          ['Mail', <MailState mail={data.notifications} />],
          ...data.consumers.map(
            (consumer) => [`Events to ${consumer.name}`, <ConsumerState consumer={consumer} />] as const,
          ),
          ...switchesOf(data).map(
            (one) =>
              [
                one.words.title,
                <>
                  <a href={href('/operation')}>
                    {one.isOn ? one.words.on : one.words.off}
                    {one.isOn && since(one.since.since, one.since.set_by)}
                  </a>{' '}
                  <SwitchButton {...one} reload={reload} />
                </>,
              ] as const,
          ),
        ]}
      />
    </Section>
  )
}

/** No probe asks this CA, so it is never green. */
const OtherCaState = ({ ca: { last_issued_at, open, failures } }: { ca: Overview['other_cas'][number] }) => (
  <>
    {failures > 0 && <Badge tone="bad">failing</Badge>} last certificate <Time at={last_issued_at} />,{' '}
    <span class="quiet">
      {countText(open)} open{failures > 0 && `, the worst after ${plural(countText(failures), 'failure')} in a row`}; it
      is not asked by itself
    </span>
  </>
)

const DatabaseState = ({ instance }: { instance: NonNullable<Overview['instance']> }) => (
  <>
    {state(instance.database)}{' '}
    <span class="quiet">
      {instance.pool.max - instance.pool.size + instance.pool.available} of {instance.pool.max} connections free
    </span>
  </>
)

/** Shows the result of the last attempt, for a new mail or a repeated one. */
function MailState({
  mail: { waiting, last_sent_at: sentAt, last_failure: failure, failing_since: since },
}: {
  mail: Overview['notifications']
}) {
  return (
    <>
      {since !== null && (
        <>
          <Badge tone="bad">failing</Badge> since <Time at={since} />,{' '}
        </>
      )}
      {since === null && sentAt !== null && state('ok')}{' '}
      <LinkTo needs="listNotifications" to={href('/notifications')}>
        {sentAt === null ? (
          'no mail is known to have been sent'
        ) : (
          <>
            last sent <Time at={sentAt} />
          </>
        )}
      </LinkTo>
      ,{' '}
      <span class="quiet">
        {countText(waiting)} waiting
        {since !== null && failure !== null && (
          <>
            ; last attempt <Time at={failure.at} />: {failure.error}
          </>
        )}
      </span>
    </>
  )
}

/** As the service judges it (`behind` of /healthz). */
const BEHIND_SECONDS = 300

function ConsumerState({ consumer }: { consumer: Overview['consumers'][number] }) {
  const { waiting, oldest_seconds: oldest, last_failure: failure } = consumer
  return (
    <>
      {oldest > BEHIND_SECONDS && waiting > 0 ? (
        <Badge tone="warn">behind</Badge>
      ) : (
        <Badge>{`${countText(waiting)} waiting`}</Badge>
      )}{' '}
      {failure && (
        <span class="quiet">
          last undelivered <Time at={failure.at} />: {failure.error}
        </span>
      )}
    </>
  )
}

function CrlState({ crl }: { crl: Overview['crl'] }) {
  if (!crl.enabled) return <>not published</>
  const oldest = [...crl.lists].sort((a, b) => a.this_update.localeCompare(b.this_update))[0]
  return (
    <>
      {crl.stale ? <Badge tone="bad">stale</Badge> : oldest && state('ok')}{' '}
      <a href={href('/crl')}>{oldest ? <Time at={oldest.this_update} relative={false} /> : 'no CRL yet'}</a>{' '}
      <span class="quiet">{countText(crl.lists.reduce((sum, { entries }) => sum + entries, 0))} revoked</span>
    </>
  )
}
