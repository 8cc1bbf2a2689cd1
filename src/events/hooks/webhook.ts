/**
 * POSTs events to the operator's URL: CloudEvents 1.0 in JSON, signed with HMAC-SHA-256, or
 * `{event, data}` for receivers made for the reference's class.
 *
 * The address is checked where the connection is made, so a name that changes in between gains
 * nothing. Redirects are not followed: they would pass by that check.
 */

import { createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { OccurredEvent } from '../../domain/event.ts'
import { poster, receiverGuard } from '../http-post.ts'
import type { WebhookHook } from './load-hooks.ts'

/** A receiver that names a later time would stop all events of its subject. */
const MAX_RETRY_AFTER_MS = 3_600_000

export class WebhookError extends Error {
  /** Another attempt would get the same answer. */
  readonly isFinal: boolean
  readonly retryAfterMs: number

  constructor(message: string, { isFinal = false, retryAfterMs = 0 } = {}) {
    super(message)
    this.name = 'WebhookError'
    this.isFinal = isFinal
    this.retryAfterMs = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
  }
}

const PLAIN = 'application/json'
const CLOUD_EVENT = 'application/cloudevents+json; charset=utf-8'
const CLOUD_EVENTS = 'application/cloudevents-batch+json; charset=utf-8'

export interface ToldEvent {
  event: OccurredEvent
  context: object
}

export class Webhook {
  readonly #hook: WebhookHook
  readonly #send: ReturnType<typeof poster<ReturnType<typeof statusOf>>>

  constructor(hook: WebhookHook) {
    this.#hook = hook
    const guard = receiverGuard(hook.allowPrivate, blocked)
    this.#send = poster(hook.url, statusOf, { guard, ca: hook.ca })
  }

  /**
   * Several events go as an array, which is taken or refused as a whole (CloudEvents 1.0, JSON batch format); so does one
   * where the receiver expects arrays.
   * @throws WebhookError, and errors of the connection
   */
  async post(told: readonly [ToldEvent, ...ToldEvent[]], signal: AbortSignal): Promise<void> {
    const { secret, isPlain, batch } = this.#hook
    const isArray = batch > 1
    const body = JSON.stringify(isArray ? told.map((one) => this.#shown(one)) : this.#shown(told[0]))
    const type = isPlain ? PLAIN : isArray ? CLOUD_EVENTS : CLOUD_EVENT
    const signed = secret === undefined ? {} : { 'Chancery-Signature': signatureOf(body, secret) }
    const { status, retryAfter } = await this.#send(body, type, signal, signed)
    if (status >= 200 && status < 300) return
    if (status >= 500 || status === 429)
      throw new WebhookError(`the receiver answered ${status}`, { retryAfterMs: retryAfterMsOf(retryAfter) })
    const advice = status >= 300 && status < 400 ? '; redirects are not followed' : ''
    throw new WebhookError(`the receiver answered ${status}${advice}`, { isFinal: true })
  }

  #shown({ event, context }: ToldEvent): object {
    return this.#hook.isPlain ? { event: event.kind, data: context } : this.#cloudEvent(event, context)
  }

  /** CloudEvents 1.0 §3.1; the id is that of the event, so that a repetition is recognised. */
  #cloudEvent({ id, kind, subject, occurredAt }: OccurredEvent, context: object): object {
    return {
      specversion: '1.0',
      id,
      source: this.#hook.source,
      type: `chancery.${kind}`,
      subject,
      time: occurredAt.toISOString(),
      datacontenttype: 'application/json',
      data: context,
    }
  }
}

/** The status is all that counts; an error while the body is dropped changes nothing. */
function statusOf(answer: IncomingMessage) {
  answer.resume()
  answer.on('error', () => undefined)
  return { status: answer.statusCode ?? 0, retryAfter: answer.headers['retry-after'] }
}

const blocked = () =>
  new WebhookError('the URL leads to a private address; allow_private: true permits it', { isFinal: true })

/** `t=SECONDS,v1=HEX`, over the time, a dot and the body: an old request cannot be sent again later. */
export function signatureOf(body: string, secret: string, seconds = Math.floor(Date.now() / 1000)): string {
  return `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`
}

/** RFC 9110 §10.2.3: seconds or a date. */
function retryAfterMsOf(text: string | undefined): number {
  if (text === undefined) return 0
  if (/^\d+$/.test(text)) return Number(text) * 1000
  const at = Date.parse(text)
  return Number.isNaN(at) ? 0 : Math.max(0, at - Date.now())
}
