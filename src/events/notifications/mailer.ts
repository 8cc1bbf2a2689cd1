/**
 * Sends notifications: claims those that are due, and records the result of each.
 *
 * It looks for new ones every second, for failed ones every `retry_interval_seconds`. Results are recorded together every
 * half second; a crash in between repeats these mails with the same Message-IDs.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { messageOf } from '../../shared/lib/errors.ts'
import { orAborted } from '../../shared/lib/time-limit.ts'
import {
  type ClaimedNotification,
  claimNotifications,
  failOverdue,
  markFailed,
  markSent,
  releaseNotifications,
} from '../../store/notification-store.ts'
import { MAIL_CONNECTIONS, MailError, type MailTransport } from './transport.ts'

export interface MailerPolicy {
  enabled: boolean
  batchSize: number
  retryIntervalMs: number
  maxRetries: number
  retryDelayMs: number
  retryBackoffMultiplier: number
  retryMaxDelayMs: number
}

interface MailerOptions {
  db: DatabasePool
  instanceId: number
  transport: Pick<MailTransport, 'send' | 'close'>
  /** Gives the policy after the last SIGHUP. */
  settings(): MailerPolicy
  events: MailerEvents
}

export interface MailerEvents {
  sent(notification: ClaimedNotification): void
  /** @param willRetry whether there will be another attempt */
  failed(notification: ClaimedNotification, reason: string, willRetry: boolean): void
  /** Too old to be of use when sending was switched on. */
  overdue(count: number): void
  /** The database, not the mail server. */
  broken(error: unknown): void
}

const LOOK_MS = 1_000
/** A statement for each mail cost PostgreSQL a tenth more for a certificate. */
const RECORD_MS = 500
/** When sending is switched on, last year's mail is of no use. */
const OVERDUE_HOURS = 24
const OVERDUE_PAGE = 1_000

export class Mailer {
  readonly #options: MailerOptions
  readonly #stopping = new AbortController()
  /** Aborted at the deadline of the stop. */
  readonly #cutOff = new AbortController()
  #wake = new AbortController()
  #nextRetries = 0
  /** By performance.now(); a server that is away is left alone until then. */
  #awayUntil = 0
  /** Taken by the server, not recorded yet, oldest first. */
  #sent: ClaimedNotification[] = []
  #recording: Promise<void> | undefined
  /** The last record failed: what is sent now may come twice when this process dies. */
  #isStuck = false
  #running: Promise<void> = Promise.resolve()

  constructor(options: MailerOptions) {
    this.#options = options
  }

  start(): void {
    this.#running = this.#run()
  }

  /** Settings have changed: looks at once. */
  wake(): void {
    this.#nextRetries = 0
    this.#wake.abort()
  }

  /** Mails under way end; what is cut off at the deadline is sent again later. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping.abort()
    const timer = setTimeout(() => this.#cutOff.abort(), deadlineMs)
    await this.#running
    clearTimeout(timer)
    this.#options.transport.close()
  }

  async #run(): Promise<void> {
    const { events } = this.#options
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#recordAll()
        if (await this.#round()) continue
      } catch (error) {
        events.broken(error)
      }
      this.#wake = new AbortController()
      const signal = AbortSignal.any([this.#stopping.signal, this.#wake.signal])
      // Only a wake-up or the stop rejects it, and both lead to the next look.
      await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined)
    }
    while (this.#sent.length > 0 && !this.#cutOff.signal.aborted) {
      await this.#recordAll().catch(events.broken)
      // Only the cut-off rejects it, and the loop checks it.
      if (this.#sent.length > 0)
        await sleep(RECORD_MS, undefined, { signal: this.#cutOff.signal }).catch(() => undefined)
    }
  }

  /** @returns whether to look again at once */
  async #round(): Promise<boolean> {
    const { enabled, retryIntervalMs } = this.#options.settings()
    const now = performance.now()
    if (!enabled || now < this.#awayUntil) return false
    if (now >= this.#nextRetries) {
      await this.#failOverdue()
      if (await this.#sendDue('failed')) return true
      this.#nextRetries = now + retryIntervalMs
    }
    return this.#sendDue('pending')
  }

  /** @returns whether more may be due */
  async #sendDue(status: 'pending' | 'failed'): Promise<boolean> {
    const { db, instanceId, settings } = this.#options
    const { batchSize, retryMaxDelayMs } = settings()
    const claim = { instanceId, status, limit: batchSize, maxDelayMs: retryMaxDelayMs }
    const claimed = [...(await claimNotifications(db, claim))]
    const isFull = claimed.length === batchSize
    const lanes = Math.min(MAIL_CONNECTIONS, claimed.length)
    // The record at the end of the round reports an error that lasts.
    const recording = setInterval(() => void this.#record().catch(() => undefined), RECORD_MS)
    const ends = await Promise.allSettled(Array.from({ length: lanes }, () => this.#sendAll(claimed)))
    clearInterval(recording)
    await this.#recordAll()
    const broken = ends.find(({ status }) => status === 'rejected')
    if (broken?.status === 'rejected') throw broken.reason
    // Left behind by a server that went away, or by the end of the service.
    if (claimed.length > 0)
      await releaseNotifications(
        db,
        instanceId,
        claimed.map(({ id }) => id),
      )
    return isFull && claimed.length === 0
  }

  async #sendAll(claimed: ClaimedNotification[]): Promise<void> {
    while (!this.#stopping.signal.aborted && !this.#isStuck && performance.now() >= this.#awayUntil) {
      const notification = claimed.shift()
      if (!notification) return
      await this.#send(notification)
    }
  }

  async #send(notification: ClaimedNotification): Promise<void> {
    const { transport } = this.#options
    const { recipient, subject, body_text: text, body_html: html, message_id: messageId } = notification
    try {
      await orAborted(transport.send({ recipient, subject, text, html, messageId }), this.#cutOff.signal)
    } catch (error) {
      // Cut off by the end of the service: it stays claimed until this instance is gone.
      if (!this.#cutOff.signal.aborted) await this.#failed(notification, error)
      return
    }
    this.#sent.push(notification)
  }

  /** Before anything is released: it would be sent again. */
  async #recordAll(): Promise<void> {
    while (this.#sent.length > 0) await this.#record()
  }

  /** Records the mails sent until now, one statement at a time. They stay in the list until the database has them. */
  #record(): Promise<void> {
    this.#recording ??= this.#recordSome([...this.#sent]).finally(() => {
      this.#recording = undefined
    })
    return this.#recording
  }

  async #recordSome(sent: readonly ClaimedNotification[]): Promise<void> {
    if (sent.length === 0) return
    const { db, events } = this.#options
    const ids = sent.map(({ id }) => id)
    try {
      await markSent(db, ids)
    } catch (error) {
      this.#isStuck = true
      throw error
    }
    this.#isStuck = false
    this.#sent = this.#sent.slice(sent.length)
    for (const notification of sent) events.sent(notification)
  }

  async #failed(notification: ClaimedNotification, error: unknown): Promise<void> {
    const { db, settings, events } = this.#options
    const trouble = error instanceof MailError ? error.trouble : 'temporary'
    const reason = messageOf(error)
    const attempts = notification.retry_count + 1
    const { maxRetries, retryDelayMs } = settings()
    const delayMs = trouble === 'permanent' || attempts > maxRetries ? undefined : retryDelay(settings(), attempts)
    if (trouble === 'server') this.#awayUntil = performance.now() + retryDelayMs
    await markFailed(db, notification.id, { error: reason, delayMs })
    events.failed(notification, reason, delayMs !== undefined)
  }

  async #failOverdue(): Promise<void> {
    const { db, events } = this.#options
    const error = `not sent within ${OVERDUE_HOURS} hours, because sending mail was off or the mail server away`
    for (let failed = OVERDUE_PAGE; failed === OVERDUE_PAGE && !this.#stopping.signal.aborted; ) {
      failed = await failOverdue(db, { hours: OVERDUE_HOURS, error, limit: OVERDUE_PAGE })
      if (failed > 0) events.overdue(failed)
    }
  }
}

/** @param attempts that have failed, 1 and up */
export function retryDelay(
  settings: Pick<MailerPolicy, 'retryDelayMs' | 'retryBackoffMultiplier' | 'retryMaxDelayMs'>,
  attempts: number,
): number {
  const { retryDelayMs, retryBackoffMultiplier, retryMaxDelayMs } = settings
  return Math.min(retryMaxDelayMs, retryDelayMs * retryBackoffMultiplier ** (attempts - 1))
}
