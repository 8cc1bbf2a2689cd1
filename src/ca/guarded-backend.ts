/**
 * A CA backend behind the operator's stop switch and a circuit breaker.
 *
 * Both refuse before anything is asked of the backend, and say so beforehand (`outage`), so that a finalize can be turned
 * away while its order is still ready. What was begun before stays with recovery.
 */

import { type CaBackend, CaError, type CaOutage } from './backend.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'

/** Clients of a stopped service look again this often. */
const STOPPED_RETRY_SECONDS = 60

export function guardBackend(backend: CaBackend, breaker: CircuitBreaker, isStopped: () => boolean): CaBackend {
  function outage(): CaOutage | undefined {
    if (isStopped())
      return { reason: 'signing has been stopped by the operator', retryAfterSeconds: STOPPED_RETRY_SECONDS }
    const waitMs = breaker.retryAfterMs()
    if (waitMs > 0) return { reason: 'the CA is not available', retryAfterSeconds: Math.ceil(waitMs / 1000) }
    return backend.outage()
  }

  async function guarded<T>(call: () => Promise<T>): Promise<T> {
    const refused = outage()
    if (refused || !breaker.admit())
      throw new CaError(refused?.reason ?? 'the CA is not available', { retryable: true })
    try {
      const result = await call()
      breaker.succeeded()
      return result
    } catch (error) {
      // A refusal is an answer: the backend is there.
      if (error instanceof CaError && !error.retryable) breaker.succeeded()
      else breaker.failed()
      throw error
    }
  }

  return {
    kind: backend.kind,
    issuers: () => backend.issuers(),
    outage,
    signCertificate: (issuerId, tbs, options) => guarded(() => backend.signCertificate(issuerId, tbs, options)),
    signCrl: (issuerId, tbs, options) => guarded(() => backend.signCrl(issuerId, tbs, options)),
    // What asks whether the backend is there must reach it, and what it learns counts.
    async testSign(options) {
      if (isStopped()) throw new CaError('signing has been stopped by the operator', { retryable: true })
      const signed = await backend.testSign(options)
      breaker.succeeded()
      return signed
    },
    tokenStates: (options) => backend.tokenStates(options),
    close: () => backend.close(),
  }
}
