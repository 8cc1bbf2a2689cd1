/**
 * Background tasks: rounds of work that one instance at a time does (leader election by advisory lock). Each is safe to run twice: what it writes is guarded by compare-and-swap.
 */

import type { LeaderRole } from '../store/instance-presence.ts'
import { type Loop, startLoop } from './loop.ts'

export interface BackgroundTask {
  /** Label of its metrics and log lines. */
  name: string
  role: LeaderRole
  intervalMs: number | (() => number)
  /** One round. @returns how many things it took up. */
  round(): Promise<number>
}

export interface BackgroundEvents {
  began(task: string): void
  ended(task: string, taken: number): void
  failed(task: string, error: unknown): void
  /** A round ended well after one that failed. */
  recovered(task: string): void
}

export interface BackgroundWorkers {
  /** Whether the last round of every task of this role ended well. */
  isHealthy(role: LeaderRole): boolean
  /** Settings have changed: every task does a round and begins its interval anew. */
  wake(): void
  /** Resolves when the rounds under way have ended. */
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
          events.began(name)
          events.ended(name, await round())
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
