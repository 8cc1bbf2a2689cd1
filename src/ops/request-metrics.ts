/**
 * How many requests were answered and how long they took: the two metrics that every request touches.
 *
 * Kept as plain numbers and put into words when they are scraped. The metrics library makes a key of the labels for each
 * observation, which costs a request 4 µs where this costs a fraction of one.
 */

/** Seconds; from a nonce to a finalize that waits for the signer. */
const DURATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/** Methods are the client's free text; a label must not be. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'PATCH', 'DELETE'])

const STATUS_LIMIT = 600

/** Shown at 0 until it happens, so that its first one is an increase. */
const ALARMING_STATUS = 500

interface Durations {
  /** Requests by the first bucket they fit in; the last is for those over every bound. */
  buckets: Float64Array
  sum: number
}

/** A metric as the metrics library exports and merges it. */
export interface ExportedMetric {
  name: string
  help: string
  type: 'counter' | 'histogram'
  aggregator: 'sum'
  values: { metricName?: string; labels: Record<string, string | number>; value: number }[]
}

export class RequestMetrics {
  /** For each method, how often each status was the answer. */
  readonly #answers = new Map<string, Float64Array>()
  readonly #durations = new Map<string, Durations>()

  constructor() {
    for (const method of ['GET', 'HEAD', 'POST']) this.#newNamed(method)
  }

  answered(method: string, status: number, resource: string, seconds: number): void {
    this.refused(method, status)
    const durations = this.#durations.get(resource) ?? this.#newResource(resource)
    let at = 0
    while (at < DURATION_BUCKETS.length && seconds > (DURATION_BUCKETS[at] as number)) at++
    durations.buckets[at] = (durations.buckets[at] as number) + 1
    durations.sum += seconds
  }

  /** Answered before anything was done for it, which says nothing about how long requests take. */
  refused(method: string, status: number): void {
    const answers = this.#answers.get(method) ?? this.#newMethod(method)
    answers[status] = (answers[status] as number) + 1
  }

  #newMethod(method: string): Float64Array {
    if (!METHODS.has(method)) return this.#answers.get('other') ?? this.#newNamed('other')
    return this.#newNamed(method)
  }

  #newNamed(label: string): Float64Array {
    const answers = new Float64Array(STATUS_LIMIT)
    this.#answers.set(label, answers)
    return answers
  }

  #newResource(resource: string): Durations {
    const durations = { buckets: new Float64Array(DURATION_BUCKETS.length + 1), sum: 0 }
    this.#durations.set(resource, durations)
    return durations
  }

  export(): ExportedMetric[] {
    return [this.#exportAnswers(), this.#exportDurations()]
  }

  #exportAnswers(): ExportedMetric {
    const values = [...this.#answers].flatMap(([method, counts]) =>
      [...counts].flatMap((value, status) =>
        value > 0 || status === ALARMING_STATUS ? [{ labels: { method, status }, value }] : [],
      ),
    )
    return {
      name: 'service_http_requests_total',
      help: 'HTTP requests answered.',
      type: 'counter',
      aggregator: 'sum',
      values,
    }
  }

  #exportDurations(): ExportedMetric {
    const name = 'service_http_request_duration_seconds'
    const values = [...this.#durations].flatMap(([resource, { buckets, sum }]) => {
      let count = 0
      // Each bucket counts those below it as well.
      const counted = [...buckets].map((value, at) => {
        count += value
        return { metricName: `${name}_bucket`, labels: { le: DURATION_BUCKETS[at] ?? '+Inf', resource }, value: count }
      })
      return [
        ...counted,
        { metricName: `${name}_sum`, labels: { resource }, value: sum },
        { metricName: `${name}_count`, labels: { resource }, value: count },
      ]
    })
    return { name, help: 'Time from the request to its reply.', type: 'histogram', aggregator: 'sum', values }
  }
}
