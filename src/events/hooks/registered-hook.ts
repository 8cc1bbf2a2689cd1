/** A registered hook as the events thread runs it. Plain data. */

import type { LoadableModule } from '../../../workers/module/module-contract.ts'
import type { EventKind } from '../../domain/event.ts'

interface Registered {
  /** Names its consumer. Every instance with this hook uses it. */
  name: string
  kinds: readonly EventKind[]
  timeoutMs: number
  maxRetries: number
}

export interface ModuleHook extends Registered {
  module: LoadableModule
}

export interface WebhookHook extends Registered {
  url: string
  secret: string | undefined
  /** PEM of the authorities that are trusted, instead of the system's. */
  ca: string | undefined
  allowPrivate: boolean
  /** `source` of its CloudEvents. */
  source: string
  /** Sends `{event, data}` instead. */
  isPlain: boolean
  /** Most events of one request; more than one go as an array. */
  batch: number
}

export type RegisteredHook = ModuleHook | WebhookHook
