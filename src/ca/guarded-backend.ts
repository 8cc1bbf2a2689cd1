/**
 * The circuit breaker, which refuses before a backend is called, and the two kinds of CA backends behind it.
 *
 * A backend that signs what we build stands behind the operator's stop switch, too. `outage` says so in advance, so that a
 * finalize is refused while its order is still ready. Recovery finishes issuances that began earlier.
 * A backend that issues from a CSR has a time limit for each call. Its calls are reported, for metrics.
 */

import { type CaBackend, CaError, type CaOutage } from './backend.ts'
import type { BackendState, Contact, CsrBackend, IssuanceRequest, IssuanceStep, StepOptions } from './csr-backend.ts'

export interface CircuitBreakerSettings {
  /** Failures in a row that open it. */
  failures: number
  /** How long it stays open. */
  recoveryMs: number
}

/**
 * Several failures in a row stop all calls for a while; then one call tests again.
 *
 * | state     | a call           | it succeeds | it fails                    |
 * | --------- | ---------------- | ----------- | --------------------------- |
 * | closed    | is made          | closed      | open, after `failures` of them in a row |
 * | open      | is refused       |             |                             |
 * | half-open | one is made, the others are refused | closed | open     |
 */
export interface CircuitBreaker {
  /** Milliseconds until a call makes sense; 0 when one may be made now. Changes nothing. */
  retryAfterMs(): number
  /** Whether a call may be made. After true, the caller must report `succeeded`, `failed` or `unknown`. */
  admit(): boolean
  succeeded(): void
  failed(): void
  /** The call did not reach the other side, so another one may test it. */
  unknown(): void
}

interface CircuitBreakerEvents {
  opened(): void
  closed(): void
}

/** @param nowMs a clock that does not jump */
export function createCircuitBreaker(
  { failures, recoveryMs }: CircuitBreakerSettings,
  events: CircuitBreakerEvents,
  nowMs: () => number = () => performance.now(),
): CircuitBreaker {
  let failedInARow = 0
  let openUntil: number | undefined
  let trying = false

  function retryAfterMs(): number {
    if (openUntil === undefined) return 0
    const left = openUntil - nowMs()
    // While one call tests the other side, the others wait a full recovery time.
    return left > 0 ? left : trying ? recoveryMs : 0
  }

  return {
    retryAfterMs,
    admit() {
      if (retryAfterMs() > 0) return false
      trying = openUntil !== undefined
      return true
    },
    succeeded() {
      failedInARow = 0
      trying = false
      if (openUntil === undefined) return
      openUntil = undefined
      events.closed()
    },
    failed() {
      failedInARow++
      trying = false
      if (failedInARow < failures) return
      const wasClosed = openUntil === undefined
      openUntil = nowMs() + recoveryMs
      if (wasClosed) events.opened()
    },
    unknown() {
      trying = false
    },
  }
}

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
      if (fault || isAnswer(error)) breaker.succeeded()
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

/** A refusal and a rate limit are answers: the backend is there. */
const isAnswer = (error: unknown) => error instanceof CaError && (!error.retryable || error.pauseMs !== undefined)

/** How a call ended: a step by its answer, another call by `ok`, and each by `error`. */
type CallResult = IssuanceStep['status'] | 'ok' | 'error'

export interface BackendCall {
  backend: string
  operation: 'issue' | 'revoke' | 'health' | 'renewal'
  result: CallResult
  seconds: number
}

/** The breaker is open: nothing was sent, so nothing has changed. */
export class LeftAlone extends CaError {
  constructor(name: string) {
    super(`${name} is left alone after failures in a row`, { retryable: true })
  }
}

export interface GuardedCsrBackend
  extends Pick<CsrBackend, 'name' | 'stepTimeoutMs' | 'revoke' | 'renewalInfo' | 'close'> {
  /** Milliseconds until a step makes sense; 0 when one may be made now. */
  retryAfterMs(): number
  /** Milliseconds until a step may begin an issuance; a rate limit of the CA delays those alone. */
  newRetryAfterMs(): number
  /** @throws LeftAlone, CaError */
  advance(
    request: IssuanceRequest,
    state: BackendState | undefined,
    step: Omit<StepOptions, 'signal'>,
  ): Promise<IssuanceStep>
  /** Asks no breaker, since it asks no CA. @throws CaError */
  leave?(request: IssuanceRequest, state: BackendState): Promise<IssuanceStep>
  /** True when the last probe was answered and the circuit breaker lets calls through. False before the first probe. */
  isUp(): boolean
  /** Success lets steps be made at once. @throws CaError */
  checkHealth(timeoutMs: number): Promise<void>
}

const REVOCATION_TIMEOUT_MS = 120_000
const RENEWAL_TIMEOUT_MS = 30_000
/** Whatever a CA asks for. */
const LONGEST_PAUSE_MS = 3_600_000

/**
 * @param stopping aborts what is under way when the service ends
 * @param onWait called after each step with the time for which no issuance begins
 */
export function guardCsrBackend(
  backend: CsrBackend,
  breaker: CircuitBreaker,
  stopping: AbortSignal,
  onCall: (call: BackendCall) => void,
  onWait: (waitMs: number) => void = () => undefined,
): GuardedCsrBackend {
  const { name, stepTimeoutMs } = backend
  const leave = backend.leave?.bind(backend)
  const renewalInfo = backend.renewalInfo?.bind(backend)
  let pausedUntil = 0
  let isAnswering = false
  const failures = byIssuance(breaker)
  const newRetryAfterMs = () => Math.max(breaker.retryAfterMs(), pausedUntil - performance.now(), 0)
  const signalFor = (timeoutMs: number) => AbortSignal.any([stopping, AbortSignal.timeout(timeoutMs)])

  const call = reporting(name, onCall, signalFor)

  return {
    name,
    stepTimeoutMs,
    retryAfterMs: breaker.retryAfterMs,
    newRetryAfterMs,
    async advance(request, state, { isRepeated, isAbandoned }) {
      if (!breaker.admit()) throw new LeftAlone(name)
      try {
        const step = await call(
          'issue',
          stepTimeoutMs,
          (signal) => backend.advance(request, state, { signal, isRepeated, isAbandoned }),
          ({ status }) => status,
        )
        failures.report(request, step.contact)
        return step
      } catch (error) {
        const pauseMs = error instanceof CaError ? error.pauseMs : undefined
        if (pauseMs !== undefined)
          pausedUntil = Math.max(pausedUntil, performance.now() + Math.min(pauseMs, LONGEST_PAUSE_MS))
        failures.report(request, isAnswer(error) ? undefined : 'failed')
        throw error
      } finally {
        onWait(newRetryAfterMs())
      }
    },
    ...(leave && { leave: (request, state) => leave(request, state, signalFor(stepTimeoutMs)) }),
    revoke: (revocation, ending) =>
      call(
        'revoke',
        REVOCATION_TIMEOUT_MS,
        (signal) => backend.revoke(revocation, AbortSignal.any([signal, ending])),
        () => 'ok',
      ),
    isUp: () => isAnswering && breaker.retryAfterMs() === 0,
    async checkHealth(timeoutMs) {
      const work = (signal: AbortSignal) => backend.checkHealth(signal)
      const asked = call('health', timeoutMs, work, () => 'ok')
      isAnswering = await asked.then(
        () => true,
        () => false,
      )
      await asked
      // While the breaker is closed, an answered probe must not hide failing steps.
      if (breaker.retryAfterMs() === 0) return
      breaker.succeeded()
      onWait(newRetryAfterMs())
    },
    ...(renewalInfo && {
      renewalInfo: (certificate, ending) =>
        call(
          'renewal',
          RENEWAL_TIMEOUT_MS,
          (signal) => renewalInfo(certificate, AbortSignal.any([signal, ending])),
          () => 'ok',
        ),
    }),
    close: () => backend.close(),
  }
}

/** @param signalFor ends a call after its time */
function reporting(name: string, onCall: (call: BackendCall) => void, signalFor: (timeoutMs: number) => AbortSignal) {
  return async <T>(
    operation: BackendCall['operation'],
    timeoutMs: number,
    work: (signal: AbortSignal) => Promise<T>,
    resultOf: (answer: T) => CallResult,
  ): Promise<T> => {
    const startedAt = performance.now()
    const report = (result: CallResult) =>
      onCall({ backend: name, operation, result, seconds: (performance.now() - startedAt) / 1000 })
    try {
      const answer = await work(signalFor(timeoutMs))
      report(resultOf(answer))
      return answer
    } catch (error) {
      report('error')
      throw error
    }
  }
}

/** An issuance that fails repeatedly counts once, because its names may be the reason. */
function byIssuance(breaker: CircuitBreaker) {
  const failing = new Set<string>()
  return {
    report({ certificateId }: Pick<IssuanceRequest, 'certificateId'>, contact: Contact['contact']): void {
      // Above 0 this is the call that tests an open breaker.
      const isKnown = failing.has(certificateId) && breaker.retryAfterMs() === 0
      if (contact === 'failed' && !isKnown) {
        failing.add(certificateId)
        breaker.failed()
      } else if (contact === 'failed' || contact === 'none') breaker.unknown()
      else {
        failing.clear()
        breaker.succeeded()
      }
    },
  }
}
