/**
 * A backend that issues from a CSR behind a circuit breaker of its own, with a time limit for each
 * call. Its calls are reported, for metrics.
 */

import { CaError } from './backend.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import type {
  BackendState,
  CsrBackend,
  IssuanceRequest,
  IssuanceStep,
  StepOptions,
  UpstreamRenewal,
  UpstreamRevocation,
} from './csr-backend.ts'

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

export interface GuardedCsrBackend {
  readonly name: string
  readonly stepTimeoutMs: number
  /** Milliseconds until a step makes sense; 0 when one may be made now. */
  retryAfterMs(): number
  /** Milliseconds until a step may begin an issuance; a rate limit of the CA delays those alone. */
  newRetryAfterMs(): number
  /** @throws LeftAlone, CaError */
  advance(
    request: IssuanceRequest,
    state: BackendState | undefined,
    step: Pick<StepOptions, 'isRepeated' | 'isAbandoned'>,
  ): Promise<IssuanceStep>
  /** Undefined when the backend publishes nothing. Asks no breaker, since it asks no CA. @throws CaError */
  leave: ((request: IssuanceRequest, state: BackendState) => Promise<IssuanceStep>) | undefined
  /** @throws CaError */
  revoke(revocation: UpstreamRevocation, signal: AbortSignal): Promise<void>
  /** True when the last probe was answered and the circuit breaker lets calls through. False before the first probe. */
  isUp(): boolean
  /** Success lets steps be made at once. @throws CaError */
  checkHealth(timeoutMs: number): Promise<void>
  /** Undefined when the backend knows no renewal information. @throws CaError */
  renewalInfo: ((certificate: Buffer, signal: AbortSignal) => Promise<UpstreamRenewal | undefined>) | undefined
  close(): Promise<void>
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
        failures.report(request, step)
        return step
      } catch (error) {
        const { retryable, pauseMs } = error instanceof CaError ? error : { retryable: true, pauseMs: undefined }
        if (pauseMs !== undefined)
          pausedUntil = Math.max(pausedUntil, performance.now() + Math.min(pauseMs, LONGEST_PAUSE_MS))
        // A final error is an answer, as a rate limit is, so the CA is there.
        failures.report(request, { contact: retryable && pauseMs === undefined ? 'failed' : undefined })
        throw error
      } finally {
        onWait(newRetryAfterMs())
      }
    },
    leave: leave && ((request, state) => leave(request, state, signalFor(stepTimeoutMs))),
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
    renewalInfo:
      backend.renewalInfo &&
      ((certificate, ending) =>
        call(
          'renewal',
          RENEWAL_TIMEOUT_MS,
          async (signal) => backend.renewalInfo?.(certificate, AbortSignal.any([signal, ending])),
          () => 'ok',
        )),
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
    report(
      { certificateId }: Pick<IssuanceRequest, 'certificateId'>,
      { contact }: { contact?: string | undefined },
    ): void {
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
