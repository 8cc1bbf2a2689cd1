/** Notifications of the events thread: recording, sending, and what SIGHUP changes. */

import type { Config } from '../../config/schema.ts'
import type { CheckStatus } from '../../domain/health.ts'
import type { EventDelivery } from '../../events/delivery.ts'
import { Mailer, type MailerEvents } from '../../events/notifications/mailer.ts'
import { NotificationConsumer } from '../../events/notifications/notification-consumer.ts'
import { MailTemplates } from '../../events/notifications/templates.ts'
import { MailProbe, MailTransport } from '../../events/notifications/transport.ts'
import { beginAtZero } from '../../ops/metrics.ts'
import {
  mailSettings,
  type NotificationSettings,
  notificationSettings,
  templatesPath,
} from '../../settings/event-settings.ts'
import type { ConsumerContext } from './consumers.ts'

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

  /** Asked only where mail is sent. */
  async smtp(): Promise<CheckStatus> {
    return this.#probe ? this.#probe.status() : 'error'
  }

  /** After SIGHUP. */
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
    const reason = error instanceof Error ? error.message : String(error)
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
