/** PromQL over the table of metrics: a query that names none of them does not compile. */

import { createMetrics, type Metrics, takeSnapshot } from '../metrics.ts'

type Counted = Exclude<keyof Metrics, 'registry' | 'requests'>
/** The two that `RequestMetrics` keeps by itself. */
const OF_REQUESTS = {
  requestsAnswered: 'service_http_requests_total',
  requestSeconds: 'service_http_request_duration_seconds',
}
type MetricKey = Counted | keyof typeof OF_REQUESTS

const metrics = createMetrics()

/** The help of each metric, by its name. */
export const helps: ReadonlyMap<string, string> = new Map(
  (await takeSnapshot(metrics)).map(({ name, help }) => [name, help]),
)

function nameOf(key: MetricKey): string {
  if (key in OF_REQUESTS) return OF_REQUESTS[key as keyof typeof OF_REQUESTS]
  // The library's types leave the name out.
  return (metrics[key as Counted] as unknown as { name: string }).name
}

/** The board's variables choose these series. */
const CHOSEN = 'job=~"$job",instance=~"$instance"'

interface Choice {
  /** Labels that stay apart; everything else is summed. */
  by?: string
  /** A further matcher. */
  only?: string
}

function series(key: MetricKey, only?: string, suffix = ''): string {
  return `${nameOf(key)}${suffix}{${only === undefined ? CHOSEN : `${CHOSEN},${only}`}}`
}

const grouped = (by: string | undefined) => (by === undefined ? '' : ` by (${by}) `)

export function gauge(how: 'sum' | 'min' | 'max', key: MetricKey, { by, only }: Choice = {}): string {
  return `${how}${grouped(by)}(${series(key, only)})`
}

/** Per second. */
export function rate(key: MetricKey, { by, only }: Choice = {}): string {
  return `sum${grouped(by)}(rate(${series(key, only)}[$__rate_interval]))`
}

/** How many came, in the time of one point or in all that the board shows. */
export function count(
  key: MetricKey,
  { by, only }: Choice = {},
  time: '$__rate_interval' | '$__range' = '$__rate_interval',
) {
  return `sum${grouped(by)}(increase(${series(key, only)}[${time}]))`
}

export function quantile(share: number, key: MetricKey, by?: string, only?: string): string {
  const labels = by === undefined ? 'le' : `le, ${by}`
  return `histogram_quantile(${share}, sum by (${labels}) (rate(${series(key, only, '_bucket')}[$__rate_interval])))`
}

/** Seconds until an instant that a metric gives. */
export function secondsUntil(key: MetricKey, by: string): string {
  return `min by (${by}) (${series(key)}) - time()`
}

export function secondsSince(key: MetricKey, by: string): string {
  return `time() - max by (${by}) (${series(key)})`
}

/** A series of prometheus-recording-rules.yml, which keeps the job and nothing of the instances. */
export function recorded(name: string): string {
  return `${name}{job=~"$job"}`
}
