/**
 * A CA backend behind the operator's stop switch and a circuit breaker.
 *
 * Both refuse before the backend is called. `outage` tells it in advance, so that a finalize is
 * refused while its order is still ready. Recovery finishes issuances that began earlier.
 */

import { type CaBackend, CaError, type CaOutage } from './backend.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'

/** Retry-After while the operator has stopped signing. */
const STOPPED_RETRY_SECONDS = 60

export function guardBackend(backend: CaBackend, breaker: CircuitBreaker, isStopped: () => boolean): CaBackend {
  function outage(): CaOutage | undefined {
    if (isStopped())
      return { reason: 'signing has been stopped by the operator', retryAfterSeconds: STOPPED_RETRY_SECONDS }
    const waitMs = breaker.retryAfterMs()
    if (waitMs > 0) return { reason: 'the CA is not available', retryAfterSeconds: Math.ceil(waitMs / 1000) }
    return backend.outage()
  }

  /** @param faultOfCaller the error of the caller's own pieces, if that made the call fail */
  async function guarded<T>(call: () => Promise<T>, faultOfCaller?: () => { error: unknown } | undefined): Promise<T> {
    const refused = outage()
    if (refused || !breaker.admit())
      throw new CaError(refused?.reason ?? 'the CA is not available', { retryable: true })
    try {
      const result = await call()
      breaker.succeeded()
      return result
    } catch (error) {
      const fault = faultOfCaller?.()
      // A refusal is an answer, so the backend is reachable.
      if (fault || (error instanceof CaError && !error.retryable)) breaker.succeeded()
      else breaker.failed()
      throw fault ? fault.error : error
    }
  }

  return {
    kind: backend.kind,
    issuers: () => backend.issuers(),
    outage,
    signCertificate: (issuerId, tbs, options) => guarded(() => backend.signCertificate(issuerId, tbs, options)),
    // A failing source of pieces is the caller's fault and does not count against the backend.
    async signCrl(issuerId, tbs, options) {
      let fault: { error: unknown } | undefined
      const pieces = noting(tbs.pieces, (error) => {
        fault = { error }
      })
      return guarded(
        () => backend.signCrl(issuerId, { ...tbs, pieces }, options),
        () => fault,
      )
    },
    // Bypasses the breaker, because this call tests the backend; success closes the breaker.
    async testSign(options) {
      if (isStopped()) throw new CaError('signing has been stopped by the operator', { retryable: true })
      const signed = await backend.testSign(options)
      breaker.succeeded()
      return signed
    },
    unreachable: () => backend.unreachable(),
    // Signs nothing: a signing that is stopped leaves it, and its failures are no reason to stop signing.
    ...(backend.records && { records: backend.records }),
    health: (options) => backend.health(options),
    close: () => backend.close(),
  }
}

async function* noting<T>(items: AsyncIterable<T>, onError: (error: unknown) => void): AsyncGenerator<T> {
  try {
    yield* items
  } catch (error) {
    onError(error)
    throw error
  }
}
