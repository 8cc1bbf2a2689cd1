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
  clients: number
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
}

/** A phase ends at a time or after a number of operations begun; either way what has begun is finished. */
export type Phase = { forMs: number } | { operations: number }

export type ToGenerator =
  | { type: 'prepare'; job: GeneratorJob }
  | { type: 'run'; phase: Phase }
  | { type: 'stop' }
  | { type: 'check' }
  /** The proof of this number is known to the responders. */
  | { type: 'published'; number: number }

export interface RanMessage {
  type: 'ran'
  stats: StatsSnapshot
  /** CPU of this process from the start of the phase until its last operation ended. */
  cpuMicros: number
}

export type FromGenerator =
  /** `thumbprints[i]` belongs to account `firstAccount + i`. */
  | { type: 'ready'; thumbprints: string[] }
  | { type: 'progress'; operations: number; failures: number }
  | { type: 'publish'; number: number; proof: Proof }
  | RanMessage
  | { type: 'checked'; checked: number; failures: [kind: string, count: FailureCount][] }
  | { type: 'failed'; reason: string }
