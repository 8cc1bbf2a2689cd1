/** The messages between front threads and the supervisor: plain data over the actor runtime. */

import type { CaaFinding, MailDomainFinding } from '../../workers/job.ts'
import type { AdminMessages } from '../admin/admin-message.ts'
import type { Config } from '../config/schema.ts'
import type { Decision } from '../domain/decision.ts'
import type { CheckStatus, HealthReport } from '../domain/health.ts'
import type { RefusalCounts } from '../events/abuse-summary.ts'
import type { RegisteredHook } from '../events/hooks/load-hooks.ts'
import type { ThreadAnswer } from '../ops/thread-metrics.ts'
import type { CaaCheckRequest } from '../services/caa-freshness.ts'
import type { AttemptEnded, ValidationRequest } from '../services/challenge-triggers.ts'
import type { ServedCrl } from '../services/crl/crl-cache.ts'
import type { CsrOutcome } from '../services/csr-step.ts'
import type { LiveSettings } from '../settings/server-settings.ts'
import type { ChallengeMethods } from '../validation/extensions.ts'

/** Messages that front threads send to the supervisor. */
export type SupervisorMessages = {
  validate: { message: { front: number; requests: readonly ValidationRequest[] }; reply: undefined }
  /** Counts of a front thread's refusals since its last message. */
  refusals: { message: RefusalCounts; reply: undefined }
  /** Takes the steps of an issuance from a CSR that has just begun. */
  issueFromCsr: { message: string; reply: CsrOutcome }
  caa: { message: CaaCheckRequest; reply: readonly CaaFinding[] | undefined }
  /** Puts decisions into a second place. The reply says why they are in none. */
  noteDecisions: { message: readonly Decision[]; reply: string | undefined }
  mailDomains: { message: readonly string[]; reply: readonly MailDomainFinding[] | undefined }
  health: { message: undefined; reply: HealthReport }
  metrics: { message: undefined; reply: string }
  /** From a front thread that ends. */
  lastMetrics: { message: { front: number; answer: ThreadAnswer }; reply: undefined }
}

/** Messages to the admin thread: requests, which the fronts send directly, and what the supervisor asks. */
export type AdminThreadMessages = AdminMessages & {
  metrics: { message: undefined; reply: ThreadAnswer }
  /** Deletes entries of the audit log older than this. */
  cutAuditLog: { message: Date; reply: number }
  /** SIGHUP has changed the configuration: for the audit log. */
  noteReload: { message: ReloadChanges; reply: undefined }
  /** Something has come back from the signer: for the audit log. */
  noteReconciled: { message: ReconciledFacts; reply: undefined }
}

/** What has come back from the signer's records. */
export interface ReconciledFacts {
  certificates: number
  /** Of them. */
  without_order: number
  revocations: number
  /** Certificates that did not come back. */
  given_up: number
}

/** Keys that a SIGHUP has found changed. */
export interface ReloadChanges {
  applied: readonly string[]
  /** They keep their running value. */
  needRestart: readonly string[]
}

/** Messages to the events thread. */
export type EventsThreadMessages = {
  metrics: { message: undefined; reply: ThreadAnswer }
  /** The configuration after SIGHUP. */
  live: { message: Config; reply: undefined }
  /** Whether the mail server answers; asks it when the last answer is old. */
  smtp: { message: undefined; reply: CheckStatus }
}

/** Worker data of the events thread. */
export interface EventsThreadData {
  config: Config
  hooks: readonly RegisteredHook[]
  instanceId: number
}

/** Worker data of the admin thread. */
export interface AdminThreadData {
  config: Config
  version: string
  /** A person reads standard error, and no log keeps it. */
  isInteractive: boolean
  /** Memory of the shared flags. */
  flags: SharedArrayBuffer
}

/** A published list, as the supervisor sends it to the fronts. */
export interface SharedCrl extends ServedCrl {
  /** True for the list at the bare CRL path. */
  isDefault: boolean
}

export interface SharedCrls {
  lists: readonly SharedCrl[]
  /** Names of lists that wait for a later one. */
  withheld: readonly string[]
}

/** Messages that the supervisor sends to a front thread. */
export type FrontMessages = {
  metrics: { message: undefined; reply: ThreadAnswer }
  live: { message: LiveSettings; reply: undefined }
  crls: { message: SharedCrls; reply: undefined }
  /** The instance will stop: connections end with their next reply. */
  closeAfterReplies: { message: undefined; reply: undefined }
  /** Results of attempts that this thread handed over. */
  attempts: { message: readonly AttemptEnded[]; reply: undefined }
}

/** Worker data of a front thread; the memory in it stays shared. */
export interface FrontThreadData {
  config: Config
  /** `challenges.enabled`, with the properties its modules declare. */
  methods: ChallengeMethods
  version: string
  instanceId: number
  /** Undefined when no certificate is signed here. */
  signer: { socketPath: string; secretFile: string } | undefined
  nonce: { key: Uint8Array; epochMs: number; window: SharedArrayBuffer }
  /** Text of `api.roots_file`, checked; empty without one. */
  rootsPem: string
  /** Memory of the change counters. */
  changes: SharedArrayBuffer
  /** The instance's rate-limit counters. */
  rateTable: SharedArrayBuffer
  /** Memory of the shared flags, and the thread's row in it. */
  flags: SharedArrayBuffer
  front: number
  /** Published lists at the thread's start; later ones arrive as messages. */
  crls: SharedCrls
  tls: { certPath: string; keyPath: string } | undefined
}
