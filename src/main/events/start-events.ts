/** The events thread, where a consumer is configured. */

import { wantsEvents } from '../../config/connections.ts'
import type { Config } from '../../config/schema.ts'
import type { CheckStatus } from '../../domain/health.ts'
import type { RegisteredHook } from '../../events/hooks/load-hooks.ts'
import type { SupervisedThread } from '../../runtime/thread.ts'
import { programFile } from '../../shared/lib/program-files.ts'
import type { EventsThreadData, EventsThreadMessages } from '../messages.ts'
import { type StartContext, superviseServiceThread } from '../start-context.ts'
import type { DatabasePart } from '../start-database.ts'

const APPLY_MS = 5_000

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
  const { config, log, parts } = context
  const data: EventsThreadData = { config, hooks, instanceId: presence.instanceId }
  let thread: EventsThread | undefined
  async function begin(): Promise<void> {
    const entry = programFile('src/main/events/events-thread.ts')
    const begun = superviseServiceThread<EventsThreadMessages>(context, { name: 'events', entry, data })
    await begun.start()
    thread = begun
  }
  parts.add('events thread', undefined, () => thread?.stop(config.server.graceful_timeout * 1000))
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
