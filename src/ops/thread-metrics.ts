/**
 * The metrics of an instance's front threads: what a thread has counted stays in the sum while it is late with its answer, and
 * when it is gone. Prometheus takes a counter that falls for one that began anew, and everything in it for new events.
 * What a thread counts between the last scrape and its end is lost.
 */

import { type MetricsSnapshot, sumSnapshots } from './metrics.ts'

export interface ThreadAnswer {
  /** Rises with every thread that is started. */
  threadId: number
  snapshot: MetricsSnapshot
}

type Answers = readonly (ThreadAnswer | undefined)[]

/** @returns a function that takes the answers to one scrape, each at its thread's place, and gives what is to be summed up */
export function createThreadMetrics(): (answers: Answers) => Promise<MetricsSnapshot[]> {
  const latest = new Map<number, ThreadAnswer>()
  /** Of all threads that were replaced, in one: with `server.max_requests` that is one after the other. */
  let gone: Promise<MetricsSnapshot[]> = Promise.resolve([])

  return async (answers) => {
    const leaving: MetricsSnapshot[] = []
    for (const [place, answer] of answers.entries()) {
      const former = latest.get(place)
      // An answer may have been overtaken by that of a successor.
      if (!answer || (former && answer.threadId < former.threadId)) continue
      if (former && answer.threadId > former.threadId) leaving.push(countersOf(former.snapshot))
      latest.set(place, answer)
    }
    if (leaving.length > 0) gone = gone.then(async (before) => [await sumSnapshots([...before, ...leaving])])
    const present = [...latest.values()].map(({ snapshot }) => snapshot)
    return [...present, ...(await gone)]
  }
}

/** Gauges say how things are now. */
function countersOf(snapshot: MetricsSnapshot): MetricsSnapshot {
  return snapshot.filter(({ type }) => String(type) !== 'gauge')
}
