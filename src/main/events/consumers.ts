/** The consumers of events that the configuration asks for, and notifications among them. */

import type { Logger } from 'pino'
import type { DatabasePool } from 'slonik'
import type { Config } from '../../config/schema.ts'
import type { OccurredEvent } from '../../domain/event.ts'
import type { CheckStatus } from '../../domain/health.ts'
import { auditFileConsumer, STATISTICS, syslogConsumer, webhookConsumer } from '../../events/audit-consumers.ts'
import type { DatabaseConsumer, ExternalConsumer } from '../../events/consumer.ts'
import type { EventDelivery } from '../../events/delivery.ts'
import { hookConsumers, logDeadLetter } from '../../events/hooks/hook-consumers.ts'
import type { RegisteredHook } from '../../events/hooks/load-hooks.ts'
import { Mailer, type MailerEvents } from '../../events/notifications/mailer.ts'
import { NotificationConsumer } from '../../events/notifications/notification-consumer.ts'
import { MailTemplates } from '../../events/notifications/templates.ts'
import { MailProbe, MailTransport } from '../../events/notifications/transport.ts'
import { syslogTransport } from '../../events/syslog-sender.ts'
import { transparencyConsumer } from '../../events/transparency.ts'
import { beginAtZero, type Metrics } from '../../ops/metrics.ts'
import {
  auditFile,
  auditWebhook,
  mailSettings,
  type NotificationSettings,
  notificationSettings,
  syslogTarget,
  templatesPath,
  transparencyLogs,
} from '../../settings/event-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'

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
  /** Reports an event that a consumer did not take for good. */
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

/** Recording and sending of mails, and what SIGHUP changes of them. */
export class Notifications {
  readonly #consumer: NotificationConsumer
  /** Undefined when no mail is sent. */
  readonly #mailer: Mailer | undefined
  readonly #probe: MailProbe | undefined
  #settings: NotificationSettings
  #isRecording = false

  /** @throws Error when the authorities of the mail server cannot be read */
  constructor(context: Omit<ConsumerContext, 'hooks'>, instanceId: number) {
    const { config, db, metrics } = context
    this.#settings = notificationSettings(config)
    const settings = () => this.#settings
    this.#consumer = new NotificationConsumer({
      templates: mailTemplates(context),
      serverUrl: config.server.external_url,
      settings,
      recorded: (type, recipients) => metrics.notificationsRecorded.inc({ type }, recipients),
    })
    if (config.smtp.enabled) {
      const transport = new MailTransport(mailSettings(config))
      this.#probe = new MailProbe(new MailTransport(mailSettings(config)))
      this.#mailer = new Mailer({ db, instanceId, transport, settings, events: mailerEvents(context) })
    }
  }

  async start(delivery: EventDelivery): Promise<void> {
    await this.#record(delivery)
    this.#mailer?.start()
  }

  /** It is asked only where mail is sent. */
  async smtp(): Promise<CheckStatus> {
    return this.#probe ? this.#probe.status() : 'error'
  }

  /** Applies the configuration after SIGHUP. */
  async apply(config: Config, delivery: EventDelivery): Promise<void> {
    this.#settings = notificationSettings(config)
    await this.#record(delivery)
    this.#mailer?.wake()
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#probe?.close()
    await this.#mailer?.stop(deadlineMs)
  }

  /** Recording never ends once it has begun; events that come while it is switched off are dropped. */
  async #record(delivery: EventDelivery): Promise<void> {
    if (this.#isRecording || !this.#settings.enabled) return
    this.#isRecording = true
    await delivery.add(this.#consumer)
  }
}

function mailTemplates({ config, log, metrics }: Omit<ConsumerContext, 'hooks'>): MailTemplates {
  return new MailTemplates(templatesPath(config), (file, error) => {
    metrics.alarms.inc()
    const reason = messageOf(error)
    log.error({ event: 'alarm', template: file, reason }, 'a mail template is broken; the built-in one is used')
  })
}

/** Addresses are personal data, so the log names the notification alone. */
function mailerEvents({ log, metrics }: Omit<ConsumerContext, 'hooks'>): MailerEvents {
  const { notificationsSent } = metrics
  beginAtZero(notificationsSent, { result: 'sent' }, { result: 'postponed' }, { result: 'failed' })
  return {
    sent({ id }) {
      notificationsSent.inc({ result: 'sent' })
      log.debug({ event: 'notification_sent', notificationId: id }, 'mail sent')
    },
    failed({ id }, reason, willRetry) {
      notificationsSent.inc({ result: willRetry ? 'postponed' : 'failed' })
      const line = { event: 'notification_failed', notificationId: id, reason, willRetry }
      log.warn(line, willRetry ? 'mail not sent yet' : 'mail not sent')
    },
    overdue(count) {
      notificationsSent.inc({ result: 'failed' }, count)
      log.warn({ event: 'notifications_overdue', count }, 'mails that waited too long are not sent')
    },
    broken: (error) => log.warn({ err: error }, 'notifications could not be read or recorded'),
  }
}
