/** Shared by the DNS challenges: ways to look up a TXT record, and the wait for a record. */

import { setTimeout as sleep } from 'node:timers/promises'
import { createAddressPolicy } from '../address-policy.ts'
import type { Deadline } from '../deadline.ts'
import type { DnsMethodJob, ValidationVerdict } from '../job.ts'
import type { DnsClient, DnsResult } from './ask.ts'
import { createDnsClient } from './dns-client.ts'

/** Pause before the second look. Each later pause is twice as long. */
const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 10_000

/** One way to look a record up. Every way of an attempt must find it. */
export interface Way {
  via: 'resolver' | 'authoritative'
  dns: DnsClient
}

/** Zone servers never set the AD bit, so both settings together require both look-ups. */
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

/** Repeats the look after a temporary failure. The last look comes at the end of the wait. */
export async function lookUntilFound(
  look: () => Promise<ValidationVerdict>,
  deadline: Deadline,
  propagationWaitMs: number,
): Promise<ValidationVerdict> {
  // A flag, because a timer may fire a fraction of a millisecond early.
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
