/** `health`: the live counters. Whether a key really signs is what `testSign` is for. */

import type { AuditChain } from '../audit-chain.ts'
import type { Counters } from '../counters.ts'
import type { MethodHandler } from './method.ts'

export function healthMethod(counters: Counters, audit: AuditChain): MethodHandler<'health'> {
  return () => ({
    meta: {
      signing: audit.failure === undefined,
      uptimeSeconds: Math.round(performance.now() - counters.startedAt) / 1000,
      signatures: counters.signatures,
      refusals: counters.refusals,
      inFlight: counters.inFlight,
      connections: counters.connections,
      auditSequence: audit.sequence,
      auditSyncs: audit.syncs,
      ...(counters.lastError && { lastError: counters.lastError }),
    },
  })
}
