/** What front threads and the supervisor say to each other: plain data over the actor runtime. */

import type { CaaFinding, MailDomainFinding } from '../../workers/job.ts'
import type { Config } from '../config/schema.ts'
import type { HealthReport } from '../ops/health.ts'
import type { ThreadAnswer } from '../ops/thread-metrics.ts'
import type { CaaCheckRequest } from '../services/caa-freshness.ts'
import type { ServedCrl } from '../services/crl-cache.ts'
import type { AttemptEnded, ValidationRequest } from '../services/validation.ts'
import type { LiveSettings } from './settings/server.ts'
import type { ChallengeMethods } from './validation/extensions.ts'

/** The supervisor, as front threads see it. */
export type SupervisorMessages = {
  validate: { message: { front: number; requests: readonly ValidationRequest[] }; reply: undefined }
  caa: { message: CaaCheckRequest; reply: readonly CaaFinding[] | undefined }
  mailDomains: { message: readonly string[]; reply: readonly MailDomainFinding[] | undefined }
  health: { message: undefined; reply: HealthReport }
  metrics: { message: undefined; reply: string }
}

/** A published list, as the supervisor hands it to the fronts. */
export interface SharedCrl extends ServedCrl {
  /** The bare path serves it. */
  isDefault: boolean
}

/** A front thread, as the supervisor sees it. */
export type FrontMessages = {
  metrics: { message: undefined; reply: ThreadAnswer }
  live: { message: LiveSettings; reply: undefined }
  crls: { message: readonly SharedCrl[]; reply: undefined }
  /** How attempts have ended that the thread has handed over. */
  attempts: { message: readonly AttemptEnded[]; reply: undefined }
}

/** Worker data of a front thread; the shared memory stays shared. */
export interface FrontThreadData {
  config: Config
  /** `challenges.enabled` with what its modules say of themselves. */
  methods: ChallengeMethods
  version: string
  instanceId: number
  signer: { socketPath: string; secretFile: string }
  nonce: { key: Uint8Array; epochMs: number; window: SharedArrayBuffer }
  /** `lib/change-counters.ts` */
  changes: SharedArrayBuffer
  /** Rate-limit counters of the instance. */
  rateTable: SharedArrayBuffer
  /** `services/instance-board.ts`, and the thread's row in it. */
  board: SharedArrayBuffer
  front: number
  /** Published lists as of the thread's start; later ones come as messages. */
  crls: readonly SharedCrl[]
  tls: { certPath: string; keyPath: string } | undefined
}
