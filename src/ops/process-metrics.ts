/** What the process and its threads use of the machine, taken at each scrape. */

import type { Metrics } from './metrics.ts'

export type ThreadKind = 'supervisor' | 'front' | 'admin' | 'events'

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
