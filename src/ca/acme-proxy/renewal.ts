/** The renewal window that the upstream suggests for a certificate (RFC 9773 §4). */

import { parseTimestamp } from '../../shared/protocol/timestamp.ts'
import type { UpstreamRenewal } from '../csr-backend.ts'
import { explanationOf, renewalRetryMs } from '../renewal-advice.ts'
import type { AcmeClient } from './client.ts'
import { certIdOf } from './order-actions.ts'
import { UpstreamNonsense, UpstreamProblem } from './upstream-problem.ts'

/** RFC 9773 §4.3.3: six hours where the upstream names no time. */
const DEFAULT_RETRY_MS = 21_600_000

/** @returns undefined when the upstream has no renewal information, or not of this certificate */
export async function upstreamRenewal(
  client: AcmeClient,
  certificate: Buffer,
  signal: AbortSignal,
): Promise<UpstreamRenewal | undefined> {
  const { renewalInfo } = await client.directory(signal)
  const certId = certIdOf(certificate)
  if (renewalInfo === undefined || certId === undefined) return undefined
  try {
    const { json, retryAfterMs = DEFAULT_RETRY_MS } = await client.get(`${renewalInfo}/${certId}`, signal)
    const { start, end } = windowOf(json?.['suggestedWindow'])
    return {
      start,
      end,
      explanationUrl: explanationOf(json?.['explanationURL']),
      retryAfterMs: renewalRetryMs(retryAfterMs),
    }
  } catch (error) {
    if (error instanceof UpstreamProblem && error.status === 404) return undefined
    throw error
  }
}

function windowOf(value: unknown): { start: Date; end: Date } {
  const { start, end } = (value ?? {}) as { start?: unknown; end?: unknown }
  const window = { start: parsed(start), end: parsed(end) }
  // RFC 9773 §4.2: a window that ends before it starts is to be treated as absent.
  if (!window.start || !window.end || window.start >= window.end)
    throw new UpstreamNonsense('renewal information has no window')
  return { start: window.start, end: window.end }
}

const parsed = (value: unknown) => (typeof value === 'string' ? parseTimestamp(value) : undefined)
