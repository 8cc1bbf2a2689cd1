/** The messages between front threads and the supervisor: plain data over the actor runtime. */

import type { CaaFinding, MailDomainFinding } from '../../workers/job.ts'
import type { Config } from '../config/schema.ts'
import type { HealthReport } from '../ops/health.ts'
import type { ThreadAnswer } from '../ops/thread-metrics.ts'
import type { CaaCheckRequest } from '../services/caa-freshness.ts'
import type { ServedCrl } from '../services/crl-cache.ts'
import type { AttemptEnded, ValidationRequest } from '../services/validation.ts'
import type { LiveSettings } from './settings/server.ts'
import type { ChallengeMethods } from './validation/extensions.ts'

/** Messages that front threads send to the supervisor. */
export type SupervisorMessages = {
  validate: { message: { front: number; requests: readonly ValidationRequest[] }; reply: undefined }
  caa: { message: CaaCheckRequest; reply: readonly CaaFinding[] | undefined }
  mailDomains: { message: readonly string[]; reply: readonly MailDomainFinding[] | undefined }
  health: { message: undefined; reply: HealthReport }
  metrics: { message: undefined; reply: string }
}

/** A published list, as the supervisor sends it to the fronts. */
export interface SharedCrl extends ServedCrl {
  /** True for the list at the bare CRL path. */
  isDefault: boolean
}

/** Messages that the supervisor sends to a front thread. */
export type FrontMessages = {
  metrics: { message: undefined; reply: ThreadAnswer }
  live: { message: LiveSettings; reply: undefined }
  crls: { message: readonly SharedCrl[]; reply: undefined }
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
  signer: { socketPath: string; secretFile: string }
  nonce: { key: Uint8Array; epochMs: number; window: SharedArrayBuffer }
  /** Memory of the change counters. */
  changes: SharedArrayBuffer
  /** The instance's rate-limit counters. */
  rateTable: SharedArrayBuffer
  /** Memory of the instance board, and the thread's row in it. */
  board: SharedArrayBuffer
  front: number
  /** Published lists at the thread's start; later ones arrive as messages. */
  crls: readonly SharedCrl[]
  tls: { certPath: string; keyPath: string } | undefined
}
