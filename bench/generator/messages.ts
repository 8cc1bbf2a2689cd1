/** Messages between the conductor (`run.ts`) and its generator processes: plain data over the IPC channel. */

import type { Target } from '../client/target.ts'
import type { FailureCounts, StatsSnapshot } from '../measure/stats.ts'
import type { Proof } from '../scenario/challenge.ts'
import type { ScenarioName } from '../scenario/table.ts'

/** One process's share of the work. */
export interface GeneratorJob {
  target: Target
  scenario: ScenarioName
  /** Clients of the closed loop. */
  clients: number
  /** Most connections of the open loop. */
  connections: number
  accounts: number
  /** Index of its first account; shares of different processes do not overlap. */
  firstAccount: number
  /** Makes its names differ from every other process's. */
  runId: string
}

/** Load of the open loop. */
export interface Arrivals {
  /** One after the other; a rate is that of a whole fleet or of one process, by who is told. */
  steps: { perSecond: number; forMs: number /** Who still waits at its end goes away. */; leaveAtEnd?: boolean }[]
  /** How long an arrival waits for a connection. */
  patienceMs: number
}

/**
 * A closed loop ends at a time or after a number of operations begun, an open one when its arrivals do.
 * Operations that have begun are finished. Counts over time are kept in slots of `slotMs`, by default a second.
 */
export type Phase = ({ forMs: number } | { operations: number } | { arrivals: Arrivals }) & { slotMs?: number }

export type ToGenerator =
  | { type: 'prepare'; job: GeneratorJob }
  | { type: 'run'; phase: Phase }
  | { type: 'stop' }
  | { type: 'check' }
  /** The proof of this number is known to the responders. */
  | { type: 'published'; number: number }

/** Since the phase began. */
export interface Progress {
  operations: number
  failed: number
  refused: number
  dropped: number
}

export type FromGenerator =
  | { type: 'prepared' }
  | ({ type: 'progress' } & Progress)
  | { type: 'publish'; number: number; proof: Proof }
  /** CPU of this process from the start of the phase until its last operation ended. */
  | { type: 'ran'; stats: StatsSnapshot; cpuMicros: number }
  | { type: 'checked'; checked: number; failures: FailureCounts }
  | { type: 'failed'; reason: string }
