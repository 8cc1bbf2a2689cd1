/** The events thread, where a consumer is configured. */

import { wantsEvents } from '../../config/connections.ts'
import type { Config } from '../../config/schema.ts'
import type { CheckStatus } from '../../domain/health.ts'
import type { RegisteredHook } from '../../events/hooks/load-hooks.ts'
import { type SupervisedThread, superviseThread } from '../../runtime/thread.ts'
import { programFile } from '../../shared/lib/program-files.ts'
import type { EventsThreadData, EventsThreadMessages } from '../messages.ts'
import { threadEvents } from '../service-events.ts'
import { type StartContext, THREAD_READY_TIMEOUT_MS } from '../start-context.ts'
import type { DatabasePart } from '../start-database.ts'

const APPLY_MS = 5_000
const RESTART = { initialDelayMs: 50, maxDelayMs: 5_000, maxRestarts: 20, windowMs: 60_000 }

type EventsThread = SupervisedThread<EventsThreadMessages>

export interface Events {
  /** Undefined while no consumer is configured. */
  thread(): EventsThread | undefined
  /** Applies live settings; begins to deliver events where they say so. */
  apply(config: Config): Promise<void>
}

export async function startEvents(
  context: StartContext,
  { presence }: DatabasePart,
  hooks: readonly RegisteredHook[],
): Promise<Events> {
  const { config, log, teardown } = context
  const data: EventsThreadData = { config, hooks, instanceId: presence.instanceId }
  const stopMs = config.server.graceful_timeout * 1000
  let thread: EventsThread | undefined
  async function begin(): Promise<void> {
    const begun = superviseEvents(context, data, stopMs)
    await begun.start()
    thread = begun
  }
  teardown.add(async () => void (await thread?.stop(stopMs)))
  if (wantsEvents(config)) await begin()
  return {
    thread: () => thread,
    async apply(next) {
      data.config = next
      if (!thread) return wantsEvents(next) ? begin() : undefined
      // A thread under replacement reads the new configuration when it starts.
      await thread.ref
        .ask('live', next, APPLY_MS)
        .catch((error) => log.warn({ err: error }, 'the events thread keeps its former settings'))
    },
  }
}

const SMTP_MS = 5_000

/** Undefined when no mail is sent. The answer is undefined, too, while no consumer is configured. */
export function smtpStatus({ smtp }: Config, events: Events): (() => Promise<CheckStatus | undefined>) | undefined {
  if (!smtp.enabled) return undefined
  return async () => events.thread()?.ref.ask('smtp', undefined, SMTP_MS)
}

function superviseEvents({ log, onBroken }: StartContext, data: EventsThreadData, stopTimeoutMs: number) {
  return superviseThread<EventsThreadMessages>({
    name: 'events',
    entry: programFile('src/main/events/events-thread.ts'),
    data,
    mailboxLimit: 64,
    readyTimeoutMs: THREAD_READY_TIMEOUT_MS,
    stopTimeoutMs,
    restart: RESTART,
    onEvent: threadEvents(log, onBroken),
  })
}
