/**
 * The steps of a backend for a test, in memory and without an order. What may have been issued is
 * asked for again and never begun anew, as in csr-issuances.ts.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { CaError } from '../ca/backend.ts'
import type { BackendState, CsrBackend, IssuanceRequest, IssuanceStep } from '../ca/csr-backend.ts'
import { restSeconds } from '../domain/csr-issuance.ts'

export interface TestIssuanceOptions {
  timeoutMs: number
  /** A step has failed and is tried again. */
  onFailure(error: CaError): void
}

type Ended = Exclude<IssuanceStep, { status: 'pending' }>

/** After the end of its time, for what a backend has to take back. */
const CLEANUP_MS = 30_000

/** @throws CaError; `mayHaveIssued` when there may be a certificate at the CA all the same */
export async function issueForTest(
  backend: CsrBackend,
  request: IssuanceRequest,
  { timeoutMs, onFailure }: TestIssuanceOptions,
): Promise<Ended> {
  const deadline = performance.now() + timeoutMs
  let state: BackendState | undefined
  let [mayHaveIssued, isRepeated, failures] = [false, false, 0]
  for (;;) {
    const lateMs = performance.now() - deadline
    const isAbandoned = lateMs > 0
    const isOver = lateMs > CLEANUP_MS || (isAbandoned && state === undefined && !mayHaveIssued)
    if (isOver)
      throw new CaError(`no certificate within ${Math.round(timeoutMs / 1000)} seconds`, {
        retryable: false,
        mayHaveIssued,
      })
    let pauseMs: number
    try {
      const signal = AbortSignal.timeout(backend.stepTimeoutMs)
      const step = await backend.advance(request, state, { signal, isRepeated, isAbandoned })
      if (step.status !== 'pending') return step
      ;({ state, mayHaveIssued, retryAfterMs: pauseMs } = step)
      ;[isRepeated, failures] = [false, 0]
    } catch (error) {
      if (!(error instanceof CaError) || !error.retryable) throw error
      onFailure(error)
      mayHaveIssued ||= error.mayHaveIssued
      isRepeated ||= mayHaveIssued
      pauseMs = restSeconds(++failures, error.retryAfterMs) * 1000
    }
    const leftMs = deadline + (isAbandoned ? CLEANUP_MS : 0) - performance.now()
    await sleep(Math.max(0, Math.min(pauseMs, leftMs + 1)))
  }
}
