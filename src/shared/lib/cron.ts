/** Cron expressions: the one file that knows node-cron. */

import { schedule, validate } from 'node-cron'

/** Five fields, or six with seconds in front. */
export function isCronExpression(text: string): boolean {
  return validate(text)
}

export interface Schedule {
  stop(): Promise<void>
}

/**
 * Calls `onTime` at the times of the expression, in UTC. Times missed while the process stood still
 * are not repeated.
 */
export function startSchedule(expression: string, onTime: (at: Date) => void): Schedule {
  const task = schedule(expression, ({ date }) => onTime(date), { timezone: 'UTC', suppressMissedWarning: true })
  return {
    async stop() {
      await task.destroy()
    },
  }
}
