/**
 * The wait for a database that is away as the service starts: after a reboot, or a restart of both. It lasts until a signal
 * ends the process; what only the configuration can mend (a password, a name) ends the start at once.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isUnavailable } from '../store/database.ts'
import { lifeLog } from './logging.ts'

const PAUSE_MS = 1_000
const REMIND_MS = 10_000

/** A signal came before the service was up. */
export class StartAbandoned extends Error {}

/**
 * Repeats `attempt` until the database answers it. The log has a line for each new reason, and one every ten seconds.
 * @throws StartAbandoned, and what `attempt` throws when the database is there
 */
export async function awaitDatabase<T>(attempt: () => Promise<T>, log: Logger, stopping: AbortSignal): Promise<T> {
  // Written at any level: nothing else says why the service does not answer.
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
      await sleep(PAUSE_MS, undefined, { signal: stopping }).catch(() => undefined)
      if (stopping.aborted) throw new StartAbandoned()
    }
  }
}

/** Name servers may come up later than the service, too. */
function isAway(error: Error): boolean {
  const reason = error.cause ?? error
  return isUnavailable(reason) || /^(?:EAI_AGAIN|ENOTFOUND)$/.test(String((reason as NodeJS.ErrnoException).code))
}
