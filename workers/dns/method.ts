/**
 * What the DNS challenges share: by which ways a TXT record is looked up,
 * and how long one is waited for.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { createAddressPolicy } from '../address-policy.ts'
import type { Deadline } from '../deadline.ts'
import type { DnsMethodJob, ValidationVerdict } from '../job.ts'
import { createDnsClient } from './client.ts'
import type { DnsClient, DnsResult } from './result.ts'

/** Pause before the second look; the next ones are twice as long each. */
const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 10_000

/** One way to look a record up. Every way of an attempt must find it. */
export interface Way {
  via: 'resolver' | 'authoritative'
  dns: DnsClient
}

/** Zone servers never set the AD bit, so with both settings the record is looked up both ways. */
export function waysOf({ dns, blockedNetworks, requireDnssec, requireAuthoritative, authoritativePort }: DnsMethodJob) {
  const ways: Way[] = []
  if (requireAuthoritative) {
    const authoritative = {
      policy: createAddressPolicy(blockedNetworks),
      ...(authoritativePort !== undefined && { port: authoritativePort }),
    }
    ways.push({ via: 'authoritative', dns: createDnsClient(dns, { authoritative }) })
  }
  if (requireDnssec || !requireAuthoritative) {
    ways.push({ via: 'resolver', dns: createDnsClient(dns, { dnssec: requireDnssec }) })
  }
  return ways
}

/**
 * While the wait lasts, a failure that may pass is followed by another look; the last
 * one comes when the wait is over.
 */
export async function lookUntilFound(
  look: () => Promise<ValidationVerdict>,
  deadline: Deadline,
  propagationWaitMs: number,
): Promise<ValidationVerdict> {
  // Said by a flag and not by the clock: a timer may fire a fraction of a millisecond early.
  let isLast = false
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    const verdict = await look()
    const leftMs = propagationWaitMs - deadline.elapsedMs()
    const nextMs = Math.min(pauseMs, leftMs)
    if (verdict.ok || !verdict.retryable || isLast || leftMs <= 0 || nextMs >= deadline.remainingMs()) return verdict
    isLast = nextMs === leftMs
    await sleep(nextMs)
  }
}

/** For evidence. */
export function lookUpFacts(found: DnsResult<'TXT'>): Record<string, unknown> {
  if (found.kind === 'failed') return { result: found.kind, reason: found.reason, resolver: found.asked.join(', ') }
  const { kind, resolver, authenticated, aliases } = found
  return { result: kind, resolver, authenticated, aliases, records: kind === 'answer' ? found.records.length : 0 }
}
