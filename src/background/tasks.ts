/**
 * Background tasks: rounds that one instance at a time runs, elected by an advisory lock. A round
 * may safely run twice, because compare-and-swap guards its writes.
 */

import type { LeaderRole } from '../store/instance-presence.ts'
import { type Loop, startLoop } from './loop.ts'

export interface BackgroundTask {
  /** The label in metrics and log lines. */
  name: string
  role: LeaderRole
  intervalMs: number | (() => number)
  /** Runs one round. @returns how many items it processed; undefined while settings switch the task off */
  round(): Promise<number | undefined>
}

export interface BackgroundEvents {
  began(task: string): void
  ended(task: string, taken: number): void
  failed(task: string, error: unknown): void
  /** Called when a round succeeds after a failed one. */
  recovered(task: string): void
  /** A round of this instance has ended. @param error of one that failed */
  ran(task: string, nextInMs: number, error?: unknown): void
}

export interface BackgroundWorkers {
  /** Whether the last round of every task of this role succeeded. */
  isHealthy(role: LeaderRole): boolean
  /** Settings have changed: every task runs a round and restarts its interval. */
  wake(): void
  /** Resolves when the running rounds have ended. */
  stop(): Promise<void>
}

export function startBackgroundTasks(
  tasks: readonly BackgroundTask[],
  lead: (role: LeaderRole, work: () => Promise<void>) => Promise<boolean>,
  events: BackgroundEvents,
): BackgroundWorkers {
  const loops = tasks.map(({ name, role, intervalMs, round }): { role: LeaderRole; loop: Loop } => ({
    role,
    loop: startLoop({
      name,
      intervalMs,
      onError: events.failed,
      onRecovered: events.recovered,
      async round() {
        await lead(role, async () => {
          const nextInMs = typeof intervalMs === 'number' ? intervalMs : intervalMs()
          events.began(name)
          try {
            const taken = await round()
            if (taken === undefined) return
            events.ended(name, taken)
            events.ran(name, nextInMs)
          } catch (error) {
            events.ran(name, nextInMs, error)
            throw error
          }
        })
      },
    }),
  }))
  return {
    isHealthy: (role) => loops.every((entry) => entry.role !== role || entry.loop.healthy),
    wake() {
      for (const { loop } of loops) loop.wake()
    },
    async stop() {
      await Promise.all(loops.map(({ loop }) => loop.stop()))
    },
  }
}
