/** Cron expressions: the one file that knows node-cron. */

import { createTask, validate } from 'node-cron'

/** Five fields, or six with seconds in front. */
export function isCronExpression(text: string): boolean {
  return validate(text)
}

export interface Schedule {
  stop(): Promise<void>
}

/** Seconds that a thread may stand still, and still notice its times. */
const LONGEST_STANDSTILL = 60

/**
 * Calls `onTime` at the times of the expression, in UTC. Times over which a clock jumped are not repeated. node-cron only
 * matches: its own timer waits for one time, however the clock goes, and takes a minute to walk over 400 days.
 */
export function startSchedule(expression: string, onTime: (at: Date) => void): Schedule {
  const task = createTask(expression, () => {}, { timezone: 'UTC' })
  const second = () => Math.floor(Date.now() / 1000)
  let seen = second()
  const timer = setInterval(() => {
    const now = second()
    for (let at = Math.max(seen + 1, now - LONGEST_STANDSTILL); at <= now; at++)
      if (task.match(new Date(at * 1000))) onTime(new Date(at * 1000))
    seen = now
  }, 1000)
  return {
    async stop() {
      clearInterval(timer)
      await task.destroy()
    },
  }
}
