/**
 * The metrics of an instance's front threads: what a thread has counted stays in the sum while it is late with its answer, and
 * when it is gone. Prometheus takes a counter that falls for one that began anew, and everything in it for new events.
 * What a thread counts between the last scrape and its end is lost.
 */

import type { MetricsSnapshot } from './metrics.ts'

export interface ThreadAnswer {
  /** Rises with every thread that is started. */
  threadId: number
  snapshot: MetricsSnapshot
}

/** @returns a function that takes the answers to one scrape, each at its thread's place, and gives what is to be summed up */
export function createThreadMetrics(): (answers: readonly (ThreadAnswer | undefined)[]) => MetricsSnapshot[] {
  const latest = new Map<number, ThreadAnswer>()
  /** Of threads that were replaced: when they crashed, or had a new certificate to take. Few, and some kilobytes each. */
  const gone: MetricsSnapshot[] = []

  return (answers) => {
    for (const [place, answer] of answers.entries()) {
      const former = latest.get(place)
      // An answer may have been overtaken by that of a successor.
      if (!answer || (former && answer.threadId < former.threadId)) continue
      if (former && answer.threadId > former.threadId) gone.push(countersOf(former.snapshot))
      latest.set(place, answer)
    }
    return [...[...latest.values()].map(({ snapshot }) => snapshot), ...gone]
  }
}

/** Gauges say how things are now. */
function countersOf(snapshot: MetricsSnapshot): MetricsSnapshot {
  return snapshot.filter(({ type }) => String(type) !== 'gauge')
}
