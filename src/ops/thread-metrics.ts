/**
 * The metrics of an instance's front threads, including late and replaced threads.
 *
 * Prometheus takes a falling counter for a restarted one and counts its whole value as new. So
 * counts of a late or ended thread stay in the sum. Counts between a thread's last scrape and its
 * end are lost.
 */

import { type MetricsSnapshot, sumSnapshots } from './metrics.ts'

export interface ThreadAnswer {
  /** Increases with every started thread. */
  threadId: number
  snapshot: MetricsSnapshot
}

type Answers = readonly (ThreadAnswer | undefined)[]

/**
 * @returns a function that maps the answers to one scrape, by thread position, to the snapshots to
 * sum
 */
export function createThreadMetrics(): (answers: Answers) => Promise<MetricsSnapshot[]> {
  const latest = new Map<number, ThreadAnswer>()
  /**
   * The counters of all replaced threads in one snapshot, because `server.max_requests` replaces
   * many.
   */
  let gone: Promise<MetricsSnapshot[]> = Promise.resolve([])

  return async (answers) => {
    const leaving: MetricsSnapshot[] = []
    for (const [place, answer] of answers.entries()) {
      const former = latest.get(place)
      // A successor may have answered before its predecessor.
      if (!answer || (former && answer.threadId < former.threadId)) continue
      if (former && answer.threadId > former.threadId) leaving.push(countersOf(former.snapshot))
      latest.set(place, answer)
    }
    if (leaving.length > 0) gone = gone.then(async (before) => [await sumSnapshots([...before, ...leaving])])
    const present = [...latest.values()].map(({ snapshot }) => snapshot)
    return [...present, ...(await gone)]
  }
}

/** Gauges describe the present, so those of an ended thread are dropped. */
function countersOf(snapshot: MetricsSnapshot): MetricsSnapshot {
  return snapshot.filter(({ type }) => String(type) !== 'gauge')
}
