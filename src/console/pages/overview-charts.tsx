/**
 * The charts of the overview: what was issued by the hour, and what expires, by day and by account. Each figure has the
 * list behind it.
 */

import type { Output } from '../api.ts'
import { Chart, ChartFrame, Plot } from '../components/chart.tsx'
import type { Column } from '../components/columns.tsx'
import { Table } from '../components/table.tsx'
import { counted, countText, DAY_MS, HOUR_MS, plural } from '../format.ts'
import { instantText } from '../preferences.ts'
import { href } from '../router.ts'
import { useApi } from '../use-api.ts'

const CHART_DAYS = 60
/** The service counts many rows for it, and days change slowly. */
const EVERY = { every: 60_000 }

/** Unrevoked certificates that expire, the first at the top. */
const expiring = (filters: Readonly<Record<string, string>>) =>
  href('/certificates', { status: 'active', sort: 'not_after', ...filters })

const SAMPLED = 'There are many: the numbers are estimated from a sample.'

const dayText = (at: number) => new Date(at).toISOString().slice(0, 10)

/** Hours without a certificate are left out of the reply. */
export function IssuedChart({ data: { at, since, issued, issued_of_day } }: { data: Output<'getOverview'> }) {
  const counts = new Map(issued.map(({ hour, certificates }) => [Date.parse(hour), certificates]))
  const first = Date.parse(since)
  const hours = Array.from(
    { length: Math.ceil((Date.parse(at) - first) / HOUR_MS) },
    (_, hour) => first + hour * HOUR_MS,
  )
  const most = [...issued].sort((a, b) => b.certificates - a.certificates)[0]
  return (
    <Chart
      title="Issued per hour"
      summary={
        most
          ? `${counted(issued_of_day, 'certificate')} in the last 24 hours, at most ${countText(most.certificates)} in an hour (${instantText(most.hour).slice(11)}).`
          : 'No certificate was issued to a client in the last 24 hours.'
      }
      at={hours.map((hour) => hour / 1000)}
      series={[{ label: 'Certificates', color: '--series-1', values: hours.map((hour) => counts.get(hour) ?? 0) }]}
    />
  )
}

export function ExpiryChart() {
  const loaded = useApi('getExpiryHistogram', { query: { days: String(CHART_DAYS) } }, EVERY)
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
      ? `No unrevoked certificate expires within ${CHART_DAYS} days.`
      : `Within ${CHART_DAYS} days, ${plural(countText(all, isEstimate), 'unrevoked certificate expires', 'unrevoked certificates expire')}, at most ${countText(countOf(most), isEstimate)} on a day (${most}).`
  return (
    <Chart
      title="Expirations by day"
      summary={isEstimate ? `${summary} ${SAMPLED}` : summary}
      isEstimate={isEstimate}
      listOf={toCertificatesOfDay}
      byDay
      at={days.map((day) => Date.parse(day) / 1000)}
      series={[{ label: 'Certificates', color: '--series-2', values: days.map(countOf) }]}
    />
  )
}

function toCertificatesOfDay(seconds: number): string {
  const [from, until] = [0, DAY_MS].map((ms) => new Date(seconds * 1000 + ms).toISOString())
  return expiring({ expiring_after: from ?? '', expiring_before: until ?? '' })
}

type Expiring = Output<'getExpiringByAccount'>
type Counts = Expiring['others']

const COLORS = ['--series-1', '--series-2', '--series-3', '--series-4'] as const
const COLOR_OF_OTHERS = '--quiet'

interface Share {
  key: string
  name: string
  color: string
  /** It is null where no list finds the certificates: certificates without an account, and of all others. */
  accountId: string | null
  counts: Counts
}

export function ExpiringAccounts() {
  const loaded = useApi('getExpiringByAccount', {}, EVERY)
  return (
    <ChartFrame title="Expirations by account" loaded={loaded}>
      {(data) => <Shares data={data} />}
    </ChartFrame>
  )
}

function Shares({ data }: { data: Expiring }) {
  const shares = sharesOf(data)
  const { others } = data
  return (
    <figure class="chart">
      <figcaption>
        <h2>Expirations by account</h2>
      </figcaption>
      <p>
        {summaryOf(data)} {data.is_estimate && SAMPLED}
      </p>
      <Plot
        data={{
          isStacked: true,
          at: others.map((_, index) => index),
          names: others.map(({ days }) => counted(days, 'day')),
          series: shares.map(({ name, color, counts }) => ({
            label: name,
            color,
            values: counts.map(({ certificates }) => certificates),
          })),
        }}
      />
      {shares.length > 0 && (
        <>
          <Table caption="Expirations by account" columns={columnsOf(data)} rows={shares} rowKey={({ key }) => key} />
          <p>
            <a href={href('/at-risk')}>View certificates at risk</a>
          </p>
        </>
      )}
    </figure>
  )
}

const columnsOf = ({ others, is_estimate }: Expiring): Column<Share>[] => [
  {
    head: 'Account',
    cell: ({ name, color, accountId }) => (
      <>
        <span aria-hidden="true" style={{ color: `var(${color})` }}>
          ■
        </span>{' '}
        {accountId ? <a href={toCertificatesOf(accountId, longestOf(others))}>{name}</a> : name}
      </>
    ),
  },
  ...others.map(({ days }, index) => ({
    head: counted(days, 'day'),
    kind: 'number' as const,
    cell: ({ counts, accountId }: Share) => {
      const text = countText(counts[index]?.certificates ?? 0, is_estimate)
      return accountId ? <a href={toCertificatesOf(accountId, days)}>{text}</a> : text
    },
  })),
]

/** The days of the longest span. */
const longestOf = (counts: Counts): number => counts.at(-1)?.days ?? 0

const totalOf = (counts: Counts): number => counts.at(-1)?.certificates ?? 0

/** Each colour has an account; all others are one. */
function sharesOf({ accounts, others }: Expiring): Share[] {
  const named = accounts.slice(0, COLORS.length).map((account, index) => ({
    name: nameOf(account),
    color: COLORS[index] ?? COLOR_OF_OTHERS,
    counts: account.expiring,
    key: String(account.account_id),
    accountId: account.account_id,
  }))
  const rest = accounts.slice(COLORS.length).map(({ expiring }) => expiring)
  const counts = others.map(({ days, certificates }, index) => ({
    days,
    certificates: rest.reduce((sum, expiring) => sum + (expiring[index]?.certificates ?? 0), certificates),
  }))
  if (totalOf(counts) === 0) return named
  return [...named, { key: 'others', name: 'all others', color: COLOR_OF_OTHERS, counts, accountId: null }]
}

const toCertificatesOf = (account_id: string, days: number) =>
  expiring({ account_id, expiring_before: new Date(Date.now() + days * DAY_MS).toISOString() })

const nameOf = ({ account_name }: Expiring['accounts'][number]): string => account_name ?? 'no known account'

function summaryOf({ accounts, others, is_estimate }: Expiring): string {
  const [first] = accounts
  const all = accounts.reduce((sum, { expiring }) => sum + totalOf(expiring), totalOf(others))
  const span = counted(longestOf(others), 'day')
  if (!first) return `No unrevoked certificate expires within ${span}.`
  const text = (count: number) => countText(count, is_estimate)
  return `Within ${span}, ${plural(text(all), 'unrevoked certificate expires', 'unrevoked certificates expire')}; most of them, ${text(totalOf(first.expiring))}, of ${nameOf(first)}.`
}
