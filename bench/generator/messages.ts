/** What the conductor (`run.ts`) and its generator processes say to each other; plain data over the IPC channel. */

import type { PollSettings } from '../client/polling.ts'
import type { Signing } from '../client/signer.ts'
import type { FailureCount, StatsSnapshot } from '../measure/stats.ts'
import type { Proof } from '../scenario/challenge.ts'
import type { ScenarioName } from '../scenario/table.ts'

/** One process's share of the work. */
export interface GeneratorJob {
  directoryUrl: string
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
  domainSuffix: string
  challengeType: string
  signing: Signing
  caCertificates: string | undefined
  insecure: boolean
  /** PEM that issued chains must lead to; undefined when unknown. */
  rootCertificate: string | undefined
  timeoutMs: number
  poll: PollSettings
  renewalReads: number
  crlReads: number | undefined
  storm: number
  dataDir: string | undefined
  /** Of all processes. */
  accountCount: number
  /** Accounts that are there already, the first of this job; one line each (`saved-accounts.ts`). */
  savedAccounts: string[]
  /** Whether new accounts are to be told with `ready`. */
  savesAccounts: boolean
}

/** Load of the open loop. */
export interface Arrivals {
  /** One after the other; a rate is that of a whole fleet or of one process, by who is told. */
  steps: { perSecond: number; forMs: number /** Who still waits at its end goes away. */; leaveAtEnd?: boolean }[]
  /** How long an arrival waits for a connection. */
  patienceMs: number
}

/**
 * A closed loop ends at a time or after a number of operations begun, an open one when its arrivals do; what has begun is finished.
 * Counts over time are kept in slots of `slotMs`, by default a second.
 */
export type Phase = ({ forMs: number } | { operations: number } | { arrivals: Arrivals }) & { slotMs?: number }

export type ToGenerator =
  | { type: 'prepare'; job: GeneratorJob }
  /** What the scenario needs for each account; responders run by then. */
  | { type: 'prepare-accounts' }
  | { type: 'run'; phase: Phase }
  | { type: 'stop' }
  /** What the scenario has to see when held answers have gone out. */
  | { type: 'finish' }
  | { type: 'check' }
  /** The proof of this number is known to the responders. */
  | { type: 'published'; number: number }

/** Since the phase began. */
export interface Progress {
  operations: number
  failures: number
  refused: number
  dropped: number
}

export interface RanMessage {
  type: 'ran'
  stats: StatsSnapshot
  /** CPU of this process from the start of the phase until its last operation ended. */
  cpuMicros: number
}

export type FromGenerator =
  /** `thumbprints[i]` belongs to account `firstAccount + i`; `newAccounts` follow those that were saved. */
  | { type: 'ready'; thumbprints: string[]; newAccounts: string[] }
  | { type: 'accounts-prepared' }
  | { type: 'finished'; failures: [kind: string, count: FailureCount][] }
  | ({ type: 'progress' } & Progress)
  | { type: 'publish'; number: number; proof: Proof }
  | RanMessage
  | { type: 'checked'; checked: number; failures: [kind: string, count: FailureCount][] }
  | { type: 'failed'; reason: string; unsupported: boolean }
