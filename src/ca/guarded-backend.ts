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

  /** @param faultOfCaller what made the call fail, when it was not the backend */
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
      // A refusal is an answer: the backend is there.
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
    // What goes wrong where the pieces come from is the caller's, and says nothing about the backend.
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
    // What asks whether the backend is there must reach it, and what it learns counts.
    async testSign(options) {
      if (isStopped()) throw new CaError('signing has been stopped by the operator', { retryable: true })
      const signed = await backend.testSign(options)
      breaker.succeeded()
      return signed
    },
    unreachable: () => backend.unreachable(),
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
