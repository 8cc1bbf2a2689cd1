/** The supervisor gives this to each of its parts; and it supervises the other threads. */

import type { Logger } from 'pino'
import type { LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import type { Metrics } from '../ops/metrics.ts'
import type { ActorRef, MessageTable } from '../runtime/actor.ts'
import { type SupervisedThread, superviseThread, type ThreadEvent, type ThreadOptions } from '../runtime/thread.ts'
import type { FrontMessages, SupervisorMessages } from './messages.ts'
import type { Parts } from './parts.ts'

export interface StartContext {
  config: Config
  version: string
  log: Logger
  metrics: Metrics
  parts: Parts
  /** Filled when the front threads start; earlier parts read it only later. */
  fronts: SupervisedThread<FrontMessages>[]
  /** `config` changes with SIGHUP; `supervisor` is there once it has started. */
  now: { config: Config; draining: boolean; stopping: boolean; supervisor?: ActorRef<SupervisorMessages> }
  /** Reads the configuration file again; undefined when the service runs without one. */
  reread?: (() => Promise<LoadedConfig>) | undefined
  /** Called with a title as each step begins. */
  onStep(title: string): void
  /** Called when a part cannot recover: the process should stop and be restarted. */
  onBroken(reason: string): void
}

/** A start takes a second, and much longer on a machine where other work waits for the processor. */
const READY_TIMEOUT_MS = 60_000
const MAILBOX_LIMIT = 4096
const RESTART = { initialDelayMs: 50, maxDelayMs: 5_000, maxRestarts: 20, windowMs: 60_000 }

type Supervised<S extends MessageTable> = Pick<ThreadOptions<S>, 'name' | 'entry' | 'data' | 'supervisor' | 'peer'>

/** A thread of the service, which is restarted when it crashes and has `server.graceful_timeout` to stop. */
export function superviseServiceThread<T extends MessageTable, S extends MessageTable = Record<never, never>>(
  { config, log, onBroken }: Pick<StartContext, 'config' | 'log' | 'onBroken'>,
  options: Supervised<S>,
): SupervisedThread<T> {
  return superviseThread<T, S>({
    ...options,
    mailboxLimit: MAILBOX_LIMIT,
    readyTimeoutMs: READY_TIMEOUT_MS,
    stopTimeoutMs: config.server.graceful_timeout * 1000,
    restart: RESTART,
    onEvent: threadEvents(log, onBroken),
  })
}

const THREAD_LINES: Partial<Record<ThreadEvent['type'], readonly [level: 'warn' | 'error' | 'fatal', text: string]>> = {
  crashed: ['error', 'thread crashed and is restarted'],
  escalated: ['fatal', 'thread crashes again and again'],
  stuck: ['fatal', 'thread does not end'],
  slow: ['warn', 'thread is not ready yet, and is waited for'],
  refused: ['warn', 'a message was refused'],
}

function threadEvents(log: Logger, onBroken: (reason: string) => void): (event: ThreadEvent) => void {
  return ({ type, name, ...facts }) => {
    const [level, text] = THREAD_LINES[type] ?? ['debug', `thread ${type}`]
    log[level]({ thread: name, ...facts }, text)
    if (type === 'escalated') onBroken(`${name} crashes again and again`)
  }
}
