/** Accounts whose certificates expire within 1, 7, 14 and 30 days: a plot, and the figures with the list behind each account. */

import type { Output } from '../api.ts'
import { ChartFrame, Plot } from '../components/chart.tsx'
import { type Column, Table } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { href } from '../router.ts'
import { useApi } from '../use-api.ts'

type Expiring = Output<'getExpiringByAccount'>
type Counts = Expiring['others']

/** It is counted from many rows, and days change slowly. */
const POLL_MS = 60_000
const DAY_MS = 86_400_000
const MOST_DAYS = 30
const COLORS = ['--series-1', '--series-2', '--series-3', '--series-4'] as const
const COLOR_OF_OTHERS = '--quiet'

interface Share {
  key: string
  name: string
  color: string
  /** Nothing finds the certificates of no account, or of all others. */
  accountId: string | null
  counts: Counts
}

export function ExpiringAccounts() {
  const loaded = useApi('getExpiringByAccount', {}, { every: POLL_MS })
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
        {summaryOf(data)} {data.is_estimate && 'There are many: the numbers are estimated from a sample.'}
      </p>
      <Plot
        data={{
          isStacked: true,
          at: others.map((_, index) => index),
          names: others.map(({ days }) => (days === 1 ? '1 day' : `${days} days`)),
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
        {accountId ? <a href={toCertificatesOf(accountId, MOST_DAYS)}>{name}</a> : name}
      </>
    ),
  },
  ...others.map(({ days }, index) => ({
    head: days === 1 ? '1 day' : `${days} days`,
    kind: 'number' as const,
    cell: ({ counts, accountId }: Share) => {
      const text = countText(counts[index]?.certificates ?? 0, is_estimate)
      return accountId ? <a href={toCertificatesOf(accountId, days)}>{text}</a> : text
    },
  })),
]

const totalOf = (counts: Counts): number => counts.at(-1)?.certificates ?? 0

/** As many accounts as there are colours; all others are one. */
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
  href('/certificates', {
    status: 'active',
    sort: 'not_after',
    account_id,
    expiring_before: new Date(Date.now() + days * DAY_MS).toISOString(),
  })

const nameOf = ({ account_name }: Expiring['accounts'][number]): string => account_name ?? 'no known account'

function summaryOf({ accounts, others, is_estimate }: Expiring): string {
  const [first] = accounts
  const all = accounts.reduce((sum, { expiring }) => sum + totalOf(expiring), totalOf(others))
  if (!first) return 'No unrevoked certificate expires within 30 days.'
  const text = (count: number) => countText(count, is_estimate)
  return `Within 30 days, ${plural(text(all), 'unrevoked certificate expires', 'unrevoked certificates expire')}; most of them, ${text(totalOf(first.expiring))}, of ${nameOf(first)}.`
}
