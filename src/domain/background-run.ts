/** A run of a background task, and what all instances together report. */

/** Runs of one task since the last report of this instance. */
export interface TaskRuns {
  task: string
  lastRunAt: Date
  nextRunAt: Date
  /** Failed ones. */
  errors: number
  lastError: string | undefined
}

export interface TaskStatus {
  name: string
  /** Instance that ran it last. */
  leader: number
  leaderIsAlive: boolean
  lastRunAt: Date
  nextRunAt: Date
  /** Failed runs since the table was made. */
  errors: number
  lastError: string | null
  failedAt: Date | null
}

export interface ConsumerBacklog {
  name: string
  /** Events, at most 1000. */
  waiting: number
  oldestSeconds: number
}

export interface WorkersStatus {
  tasks: readonly TaskStatus[]
  consumers: readonly ConsumerBacklog[]
}

/** Longer than any pause between two attempts. */
const BEHIND_SECONDS = 300

export const isBehind = ({ oldestSeconds }: ConsumerBacklog) => oldestSeconds > BEHIND_SECONDS
