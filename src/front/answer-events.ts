/** Events that only the answer shows: downloads and refusals. */

import type { RefusalTally } from '../services/events/abuse-summary.ts'
import type { EventWriter } from '../services/events/event-writer.ts'
import type { Problem, ProblemType } from '../shared/protocol/problem.ts'
import type { Exchange } from './exchange.ts'

/** By policy or allow-list; a malformed request is none. */
const REJECTIONS: readonly ProblemType[] = ['rejectedIdentifier', 'unsupportedIdentifier', 'compound']

export interface AnswerEventsOptions {
  writer: Pick<EventWriter, 'write'>
  /** Of refusals that a stranger can cause. */
  refusals: Pick<RefusalTally, 'add'>
}

export type AnsweredExchange = Pick<Exchange, 'resource' | 'accountId' | 'orderId' | 'match' | 'refusal'>

export class AnswerEvents {
  readonly #options: AnswerEventsOptions

  constructor(options: AnswerEventsOptions) {
    this.#options = options
  }

  answered(exchange: AnsweredExchange, status: number): void {
    const { resource, accountId, refusal } = exchange
    if (status < 400) {
      if (resource === 'certificate' && accountId !== undefined) this.#delivered(accountId, exchange.match?.id ?? '')
    } else if (refusal && status < 500) this.#refused(exchange, refusal)
  }

  #delivered(accountId: string, certificateId: string): void {
    const data = { certificate_id: certificateId, account_id: accountId }
    this.#options.writer.write({ kind: 'certificate.delivery', subject: certificateId, accountId, data })
  }

  #refused({ resource, accountId, orderId }: AnsweredExchange, refusal: Problem): void {
    const { type, status, options } = refusal
    if (type === 'rateLimited' || status === 404 || accountId === undefined) {
      // A client gets a new nonce with this one (RFC 8555 §6.5).
      if (type !== 'badNonce') this.#options.refusals.add(status === 404 ? 'notFound' : type)
      return
    }
    const facts = { account_id: accountId, error: refusal.toJSON() }
    if (resource === 'newOrder' && REJECTIONS.includes(type))
      this.#options.writer.write({
        kind: 'order.rejected',
        subject: accountId,
        accountId,
        data: { ...facts, rejected_identifiers: options.refused ?? [] },
      })
    else if (resource === 'finalize' && type === 'badCSR' && orderId !== undefined)
      this.#options.writer.write({
        kind: 'order.csr_refused',
        subject: orderId,
        accountId,
        data: { ...facts, order_id: orderId },
      })
  }
}
