/** What front threads and the supervisor say to each other: plain data over the actor runtime. */

import type { Config } from '../config/schema.ts'
import type { HealthReport } from '../ops/health.ts'
import type { MetricsSnapshot } from '../ops/metrics.ts'
import type { RateLimitSettings } from '../services/rate-limiter.ts'
import type { ValidationRequest } from '../services/validation.ts'

/** The supervisor, as front threads see it. */
export type SupervisorMessages = {
  validate: { message: ValidationRequest; reply: undefined }
  health: { message: undefined; reply: HealthReport }
  metrics: { message: undefined; reply: string }
}

/** A front thread, as the supervisor sees it. */
export type FrontMessages = {
  metrics: { message: undefined; reply: MetricsSnapshot }
  rateLimits: { message: RateLimitSettings; reply: undefined }
  logLevel: { message: Config['logging']['level']; reply: undefined }
}

/** Worker data of a front thread; the shared memory stays shared. */
export interface FrontThreadData {
  config: Config
  version: string
  instanceId: number
  signer: { socketPath: string; secretFile: string }
  nonce: { key: Uint8Array; epochMs: number; window: SharedArrayBuffer }
  /** Rate-limit counters of the instance. */
  rateTable: SharedArrayBuffer
  /** `services/instance-board.ts`, and the thread's row in it. */
  board: SharedArrayBuffer
  front: number
  databaseConnections: number
  tls: { certPath: string; keyPath: string } | undefined
}
