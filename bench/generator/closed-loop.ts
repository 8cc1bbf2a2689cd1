/** The closed loop: each client begins its next operation when the last one has ended. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AcmeClient } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import type { RunStats } from '../measure/stats.ts'
import type { Arrivals, Phase } from './messages.ts'

/** After a failure a client rests, so that a server which is down is not hammered by a tight loop. */
const REST_MS = 20
const MAX_REST_MS = 1000

export interface LoopControl {
  stopped: boolean
}

/** Resolves when every operation that was begun has ended. */
export async function runClosedLoop(
  clients: readonly AcmeClient[],
  phase: Exclude<Phase, { arrivals: Arrivals }>,
  operate: (client: AcmeClient) => Promise<void>,
  stats: RunStats,
  control: LoopControl,
): Promise<void> {
  const endsAt = 'forMs' in phase ? performance.now() + phase.forMs : Number.POSITIVE_INFINITY
  let left = 'operations' in phase ? phase.operations : Number.POSITIVE_INFINITY
  const goesOn = () => !control.stopped && left > 0 && performance.now() < endsAt

  const runClient = async (client: AcmeClient) => {
    while (goesOn()) {
      left--
      const startedAt = performance.now()
      try {
        await operate(client)
        stats.recordOperation(startedAt, performance.now(), endsAt)
      } catch (error) {
        stats.recordFailure(error)
        if (goesOn()) await sleep(restMs(error))
      }
    }
  }
  await Promise.all(clients.map(runClient))
}

/** Retry-After is honoured, but for at most a second: a run is short. */
function restMs(error: unknown): number {
  const seconds = error instanceof Failure ? (error.retryAfterSeconds ?? 0) : 0
  return Math.min(Math.max(seconds * 1000, REST_MS), MAX_REST_MS)
}
