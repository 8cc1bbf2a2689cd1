/**
 * The wait for an unreachable database at the start of the service, for example after a reboot.
 *
 * It lasts until a signal ends the process. Errors that need a new configuration, such as a wrong
 * password, end the start at once.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { lifeLog } from '../ops/logging.ts'
import { isUnavailable } from '../store/database.ts'

const PAUSE_MS = 1_000
const REMIND_MS = 10_000

/** A signal arrived before the service was up. */
export class StartAbandoned extends Error {}

/**
 * Repeats `attempt` until the database answers it. Each new reason is logged, then every ten
 * seconds.
 *
 * @throws StartAbandoned, or the error of `attempt` once the database is reachable
 */
export async function awaitDatabase<T>(attempt: () => Promise<T>, log: Logger, stopping: AbortSignal): Promise<T> {
  // Logged at any level: nothing else explains why the service does not answer.
  const life = lifeLog(log)
  let said: { reason: string; at: number } | undefined
  for (;;) {
    try {
      const result = await attempt()
      if (said) life.warn('the database is there')
      return result
    } catch (error) {
      if (stopping.aborted) throw new StartAbandoned()
      if (!(error instanceof Error) || !isAway(error)) throw error
      const now = performance.now()
      if (error.message !== said?.reason || now - said.at >= REMIND_MS) {
        life.warn({ reason: error.message }, 'waiting for the database')
        said = { reason: error.message, at: now }
      }
      // It rejects only when the service stops, which the next line asks.
      await sleep(PAUSE_MS, undefined, { signal: stopping }).catch(() => undefined)
      if (stopping.aborted) throw new StartAbandoned()
    }
  }
}

/** Name resolution may also start later than the service. */
function isAway(error: Error): boolean {
  const reason = error.cause ?? error
  return isUnavailable(reason) || /^(?:EAI_AGAIN|ENOTFOUND)$/.test(String((reason as NodeJS.ErrnoException).code))
}
