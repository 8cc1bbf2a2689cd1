/** The consumers of events that the configuration asks for. */

import type { Logger } from 'pino'
import type { DatabasePool } from 'slonik'
import type { Config } from '../../config/schema.ts'
import type { OccurredEvent } from '../../domain/event.ts'
import { auditFileConsumer, STATISTICS, syslogConsumer, webhookConsumer } from '../../events/audit-consumers.ts'
import type { DatabaseConsumer, ExternalConsumer } from '../../events/consumer.ts'
import { hookConsumers, logDeadLetter } from '../../events/hooks/hook-consumers.ts'
import type { RegisteredHook } from '../../events/hooks/load-hooks.ts'
import { syslogTransport } from '../../events/syslog-sender.ts'
import { transparencyConsumer } from '../../events/transparency.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { auditFile, auditWebhook, syslogTarget, transparencyLogs } from '../../settings/event-settings.ts'

export interface ConsumerContext {
  config: Config
  hooks: readonly RegisteredHook[]
  db: DatabasePool
  log: Logger
  metrics: Metrics
}

export interface Consumers {
  database: readonly DatabaseConsumer[]
  external: readonly ExternalConsumer[]
  /** An event that a consumer did not take for good. */
  buried(consumer: string, event: OccurredEvent, error: unknown): void
  /** Ends connections and threads of the consumers. */
  close(): Promise<void>
}

/** @throws Error in a sentence when a consumer cannot be made from its configuration */
export async function consumersOf(context: ConsumerContext): Promise<Consumers> {
  const { config, db, log } = context
  const audit = await auditConsumers(config)
  const hooks = registeredHooks(context)
  const { dead_letter_log: file } = config.hooks
  const isHook = new Set(hooks.consumers.map(({ name }) => name))
  const transparency = transparencyLogs(config).map((ctLog) => transparencyConsumer(ctLog, db))
  return {
    database: config.admin_api.enabled ? [STATISTICS] : [],
    external: [...audit.consumers, ...transparency, ...hooks.consumers],
    buried(consumer, event, error) {
      if (file === null || !isHook.has(consumer)) return
      logDeadLetter(file, consumer, event, error).catch((cause) =>
        log.error({ file, err: cause }, 'hooks.dead_letter_log could not be written'),
      )
    },
    async close() {
      audit.close()
      await hooks.close()
    },
  }
}

async function auditConsumers(config: Config) {
  const webhook = auditWebhook(config)
  const target = syslogTarget(config)
  const file = auditFile(config)
  const syslog = target && syslogTransport(target)
  return {
    consumers: [
      ...(webhook ? [webhookConsumer(webhook)] : []),
      ...(syslog ? [syslogConsumer(syslog)] : []),
      ...(file ? [await auditFileConsumer(file)] : []),
    ],
    close: () => syslog?.close(),
  }
}

function registeredHooks({ config, hooks, db, log }: ConsumerContext) {
  return hookConsumers({
    hooks,
    db,
    maxWorkers: config.hooks.max_workers,
    includeRoot: config.ca.include_root,
    onOutput: (hook, output) => log.info({ hook, output }, 'a hook has printed something'),
  })
}
