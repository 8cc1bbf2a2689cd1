/**
 * The next step of an upstream order, by its state and an event, an error or its time. Pure: no clock, no network.
 *
 * The table is `UPSTREAM_ORDER` in domain/states.ts; docs/decisions/upstream-orders.md.
 */

import { restSeconds } from '../../domain/csr-issuance.ts'
import { UPSTREAM_ORDER, type UpstreamOrderEvent, type UpstreamOrderStep } from '../../domain/states.ts'
import type { ProblemType } from '../../shared/protocol/problem.ts'

/** A challenge that the order needs answered. */
export type Response = {
  /** URL of the challenge. */
  challenge: string
  /** Without `*.`. */
  domain: string
  token: string
}

/**
 * Why the order ends without a certificate. `reason` is for the log. After one that passes, another
 * backend or another upstream order may do better.
 */
export type Failure = { problem: ProblemType; reason: string; isPassing?: boolean }

/** Plain JSON; kept by issuance between two steps. Times are milliseconds since the epoch. */
export type OrderState = {
  step: UpstreamOrderStep
  /** URL of the upstream order. */
  order: string
  startedAt: number
  stepSince: number
  /** Tries of this step that failed in a row, and looks that found nothing new. */
  failures: number
  looks: number
  responses: readonly Response[]
  /** How many of the responses have been published, from the first. */
  placed: number
  /** How many have been withdrawn. */
  removed: number
  failure: Failure | null
}

export function orderedState(order: string, nowMs: number): OrderState {
  return {
    step: 'inspect',
    order,
    startedAt: nowMs,
    stepSince: nowMs,
    failures: 0,
    looks: 0,
    responses: [],
    placed: 0,
    removed: 0,
    failure: null,
  }
}

/** @throws Error for an event that the step does not know */
export function after(
  state: OrderState,
  event: UpstreamOrderEvent,
  nowMs: number,
  changes: Partial<OrderState> = {},
): OrderState {
  const next = (UPSTREAM_ORDER[state.step] as Partial<Record<UpstreamOrderEvent, UpstreamOrderStep>>)[event]
  if (next === undefined) throw new Error(`the step ${state.step} has no event ${event}`)
  return { ...state, ...changes, step: next, stepSince: nowMs, failures: 0, looks: 0 }
}

/** An order that has ended without a certificate, and left nothing behind. */
type Refused = { refused: Failure }

/** @returns the state after the event, its cleaning included where nothing has to be withdrawn */
export function follow(
  state: OrderState,
  event: UpstreamOrderEvent,
  nowMs: number,
  changes: Partial<OrderState> = {},
): OrderState | Refused {
  if (event === 'cleaned') return cleaned({ ...state, ...changes }, nowMs)
  const next = after(state, event, nowMs, changes)
  return next.step === 'clean' ? cleaned({ ...next, responses: mayBePublished(next) }, nowMs) : next
}

/** A passing failure leaves the state as it is: the next turn begins again. */
function cleaned(state: OrderState, nowMs: number): OrderState | Refused {
  const { failure } = state
  if (hasToWithdraw(state) || failure?.isPassing) return state
  return failure ? { refused: failure } : after(state, 'cleaned', nowMs)
}

export const hasToWithdraw = ({ removed, responses }: OrderState) => removed < responses.length

/** The placed responses, and the one that was being placed. */
const mayBePublished = ({ responses, placed }: OrderState) => responses.slice(0, placed + 1)

/** The state that only withdraws what may be out there. */
export function leaving(state: OrderState): OrderState {
  if (state.step === 'clean') return state
  const failure: Failure = { problem: 'serverInternal', reason: 'another backend has taken over', isPassing: true }
  return { ...state, step: 'clean', responses: mayBePublished(state), failure, failures: 0 }
}

type Turn =
  /** The order was given up and cleaned: another backend may take over, else a new upstream order is made. */
  | { do: 'begin again'; failure: Failure }
  | { do: 'fail'; reason: string }
  /** @param lateReason the order fails with it, unless the step finds something new */
  | { do: 'act'; lateReason: string | undefined }

export function nextTurn(state: OrderState, isAbandoned: boolean, limits: OrderLimits, nowMs: number): Turn {
  if (state.step === 'clean') return cleaningTurn(state, isAbandoned)
  if (isAbandoned && !mayHaveIssued(state)) return { do: 'fail', reason: 'the order was given up' }
  const reason = overdue(state, limits, nowMs)
  // After a standstill of this service the upstream order may be ready by now.
  return reason === undefined || state.step === 'await' ? { do: 'act', lateReason: reason } : { do: 'fail', reason }
}

function cleaningTurn(state: OrderState, isAbandoned: boolean): Turn {
  const { failure } = state
  const beginsAgain = failure?.isPassing && !hasToWithdraw(state) && !isAbandoned
  return beginsAgain ? { do: 'begin again', failure } : { do: 'act', lateReason: undefined }
}

interface StepError {
  isPassing: boolean
  /** An earlier try of the step left no answer. */
  isRepeated: boolean
}

/**
 * After an error the step is tried again, or ends by an event. `unknown` when a certificate may exist that the upstream
 * does not give.
 */
export function afterError(
  state: OrderState,
  { isPassing, isRepeated }: StepError,
  maxRetries: number,
): 'again' | 'finalized' | 'failed' | 'unknown' {
  const isTriedAgain = mayHaveIssued(state) || state.failures < maxRetries
  if (isPassing && isTriedAgain) return 'again'
  if (state.step === 'collect') return 'unknown'
  // An earlier try may have been heard, so `collect` reads what became of it, or raises an alarm.
  const wasHeard = state.step === 'finalize' && (isRepeated || state.failures > 0)
  // Otherwise the CSR was refused or not sent: nothing was issued.
  return wasHeard ? 'finalized' : 'failed'
}

/** Whether the CSR may have reached the upstream, so that a certificate may exist. */
export function mayHaveIssued({ step, failure }: OrderState): boolean {
  if (step === 'finalize' || step === 'collect') return true
  return step === 'clean' && failure === null
}

export interface OrderLimits {
  /** From the upstream order to the CSR. */
  totalMs: number
  /** From the answers to the upstream order being ready. */
  readyMs: number
}

/** Why a state has lasted too long. A certificate that may exist is waited for by issuance. */
export function overdue(state: OrderState, limits: OrderLimits, nowMs: number): string | undefined {
  if (mayHaveIssued(state) || state.step === 'clean') return undefined
  if (nowMs - state.startedAt > limits.totalMs)
    return `the upstream order was not finished within ${limits.totalMs / 1000} seconds (ca.acme_proxy.timeout_seconds)`
  if (state.step === 'await' && nowMs - state.stepSince > limits.readyMs)
    return `the upstream order was not ready within ${limits.readyMs / 1000} seconds (ca.acme_proxy.order_ready_timeout)`
  return undefined
}

/** A pause that ends soon after the bound of the state, since nothing else ends the state. */
export function withinBounds(state: OrderState, pauseMs: number, limits: OrderLimits, nowMs: number): number {
  if (mayHaveIssued(state) || state.step === 'clean') return pauseMs
  const restMs = state.startedAt + limits.totalMs - nowMs
  const readyMs = state.step === 'await' ? state.stepSince + limits.readyMs - nowMs : restMs
  return Math.min(pauseMs, Math.max(0, Math.min(restMs, readyMs)) + 1)
}

const FIRST_LOOK_MS = 250
const LONGEST_LOOK_MS = 5_000

/** Pause before the next look at something unchanged. */
export const lookPauseMs = (looks: number) => Math.min(FIRST_LOOK_MS * 2 ** Math.min(looks, 10), LONGEST_LOOK_MS)
/** Pause after a failed try, as between two steps of an issuance. */
export const retryPauseMs = (failures: number) => 1_000 * restSeconds(failures, undefined)
