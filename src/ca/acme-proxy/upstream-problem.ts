/** The refusal of an upstream ACME service (RFC 8555 §6.7). */

import { parseJsonObject } from '../../shared/lib/encoding.ts'

const PREFIX = 'urn:ietf:params:acme:error:'
/** For the operator's log. */
const MAX_DETAIL = 500

/** Its message holds the upstream's words, so it is for the log only. */
export class UpstreamProblem extends Error {
  readonly status: number
  /** Without the prefix of ACME; undefined when the answer was no problem document. */
  readonly type: string | undefined
  /** The time that the upstream asked to wait. */
  readonly retryAfterMs: number | undefined

  constructor(status: number, text: string, type?: string, retryAfterMs?: number) {
    super(`the upstream answered ${status}${type === undefined ? '' : ` ${type}`}: ${text}`)
    this.name = 'UpstreamProblem'
    this.status = status
    this.type = type
    this.retryAfterMs = retryAfterMs
  }

  /** Whether the same request may succeed later. */
  get isPassing(): boolean {
    return this.status >= 500 || this.status === 408 || this.isRateLimit || this.isNonce
  }

  /** RFC 8555 §6.6 */
  get isRateLimit(): boolean {
    return this.status === 429 || this.type === 'rateLimited'
  }

  get isNonce(): boolean {
    return this.type === 'badNonce'
  }
}

/** Something that no ACME service should send. A repetition may get a better answer. */
export class UpstreamNonsense extends Error {
  constructor(message: string) {
    super(`the upstream answered what RFC 8555 does not know: ${message}`)
    this.name = 'UpstreamNonsense'
  }
}

export function upstreamProblem(status: number, body: Buffer, retryAfterMs: number | undefined): UpstreamProblem {
  const document = parseJsonObject(body)
  if (typeof document === 'string') return new UpstreamProblem(status, printable(body), undefined, retryAfterMs)
  return new UpstreamProblem(status, describe(document), typeOf(document), retryAfterMs)
}

/** The `error` of an order or challenge. */
export function describeError(error: unknown): { type: string | undefined; text: string } {
  if (typeof error !== 'object' || error === null) return { type: undefined, text: 'without a reason' }
  return { type: typeOf(error), text: [typeOf(error), describe(error)].join(': ') }
}

function typeOf(document: object): string | undefined {
  const { type } = document as { type?: unknown }
  return typeof type === 'string' && type.startsWith(PREFIX) ? type.slice(PREFIX.length) : undefined
}

function describe(document: object): string {
  const { detail, subproblems } = document as { detail?: unknown; subproblems?: unknown }
  const further = Array.isArray(subproblems) ? subproblems.map((one) => (one as { detail?: unknown })?.detail) : []
  return printable(Buffer.from([detail, ...further].filter((text) => typeof text === 'string').join('; ')))
}

/** One line, without control characters. */
function printable(bytes: Buffer): string {
  return bytes
    .toString('utf8', 0, 4 * MAX_DETAIL)
    .replace(/\p{C}/gu, ' ')
    .trim()
    .slice(0, MAX_DETAIL)
}
