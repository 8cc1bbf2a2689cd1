/** Checks of a RenewalInfo object (RFC 9773 §4.2). */

import { parseObject, retryAfterSeconds } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import type { HttpResponse } from '../client/response-parser.ts'

/** @throws Failure `check-renewal-info` */
export function checkRenewalInfo(response: HttpResponse): void {
  const { suggestedWindow } = parseObject(response)
  const { start, end } = (suggestedWindow ?? {}) as { start?: unknown; end?: unknown }
  const [from, until] = [start, end].map((time) => Date.parse(String(time)))
  if (!(from! < until!))
    throw new Failure('check-renewal-info', `no suggested window: ${JSON.stringify(suggestedWindow)}`)
  if (retryAfterSeconds(response) === undefined)
    throw new Failure('check-renewal-info', 'the answer has no Retry-After')
}
