/**
 * The metrics of the process and of its threads, including late and replaced threads.
 *
 * Prometheus takes a falling counter for a restarted one and counts its whole value as new. So
 * counts of a late or ended thread stay in the sum. A front thread that is replaced hands in what
 * it has counted since its last scrape; a thread that crashes loses that.
 */

import { threadId } from 'node:worker_threads'
import { type Metrics, type MetricsSnapshot, sumSnapshots, takeSnapshot } from './metrics.ts'

type ThreadKind = 'supervisor' | 'front' | 'admin' | 'events'

/** Node.js counts since the thread started, so the counter is set, not increased. */
export function reportThread({ threadBusy }: Metrics, thread: ThreadKind): void {
  threadBusy.reset()
  threadBusy.inc({ thread }, performance.eventLoopUtilization().active / 1_000)
}

/** For one thread of the process. */
export function reportProcess({ processCpu, processResident }: Metrics): void {
  const { user, system } = process.cpuUsage()
  processCpu.reset()
  processCpu.inc((user + system) / 1_000_000)
  processResident.set(process.memoryUsage.rss())
}

export interface ThreadAnswer {
  /** Increases with every started thread. */
  threadId: number
  /** The thread's `performance.now()`. */
  takenAt: number
  snapshot: MetricsSnapshot
}

/** The metrics of the thread that calls it. */
export async function answerOf(metrics: Metrics, kind: ThreadKind): Promise<ThreadAnswer> {
  reportThread(metrics, kind)
  return { threadId, takenAt: performance.now(), snapshot: await takeSnapshot(metrics) }
}

type Answers = readonly (ThreadAnswer | undefined)[]

export interface ThreadMetrics {
  /** @param answers to one scrape, by thread position. @returns the snapshots to sum */
  collect(answers: Answers): Promise<MetricsSnapshot[]>
  /** From a thread that ends. */
  handIn(place: number, answer: ThreadAnswer): void
}

/** A thread and the one that it replaces, which may still be answering its last requests. */
const THREADS_OF_PLACE = 2

export function createThreadMetrics(): ThreadMetrics {
  /** The latest answers of each position's threads, the newest thread last. */
  const places = new Map<number, readonly ThreadAnswer[]>()
  /** The counters of all other ended threads in one snapshot, because `server.max_requests` replaces many. */
  let gone: Promise<MetricsSnapshot[]> = Promise.resolve([])

  function take(place: number, answer: ThreadAnswer): void {
    const known = places.get(place) ?? []
    const former = known.find(({ threadId }) => threadId === answer.threadId)
    // An answer may come after a later one of its thread, and after a thread that was counted for good.
    if (former ? former.takenAt > answer.takenAt : known.length === THREADS_OF_PLACE && isBefore(answer, known[0]))
      return
    const all = [...known.filter((one) => one !== former), answer].sort((a, b) => a.threadId - b.threadId)
    places.set(place, all.slice(-THREADS_OF_PLACE))
    const leaving = all.slice(0, -THREADS_OF_PLACE).map(({ snapshot }) => countersOf(snapshot))
    if (leaving.length > 0) gone = gone.then(async (before) => [await sumSnapshots([...before, ...leaving])])
  }

  return {
    async collect(answers) {
      for (const [place, answer] of answers.entries()) if (answer) take(place, answer)
      const present = [...places.values()].flatMap((threads) =>
        threads.map(({ snapshot }, i) => (i === threads.length - 1 ? snapshot : countersOf(snapshot))),
      )
      return [...present, ...(await gone)]
    },
    handIn: take,
  }
}

const isBefore = ({ threadId }: ThreadAnswer, other: ThreadAnswer | undefined) =>
  other !== undefined && threadId < other.threadId

/** Gauges describe the present, so an ended thread has none. */
function countersOf(snapshot: MetricsSnapshot): MetricsSnapshot {
  return snapshot.filter(({ type }) => String(type) !== 'gauge')
}
