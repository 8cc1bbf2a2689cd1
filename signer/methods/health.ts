/** `health`: live counters and states of tokens. Only `testSign` shows that a key really signs. */

import type { Issuer } from '../issuers.ts'
import type { MethodResult } from '../protocol/methods.ts'
import type { SigningService } from '../signing.ts'
import type { MethodHandler } from './method.ts'

export function healthMethod(service: SigningService): MethodHandler<'health'> {
  const { counters, audit } = service
  return () => {
    const tokens = tokenStates([...service.issuers.values()])
    return {
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
        // Omitted when empty, because a front of the previous release would reject it.
        ...(tokens.length > 0 && { tokens }),
      },
    }
  }
}

function tokenStates(issuers: readonly Issuer[]): NonNullable<MethodResult<'health'>['tokens']> {
  return issuers.flatMap(({ id, key: { state } }) =>
    state === undefined
      ? []
      : [
          {
            issuer: id,
            status: state.status,
            since: state.since.toISOString(),
            ...(state.status !== 'ready' && { reason: state.reason }),
          },
        ],
  )
}
