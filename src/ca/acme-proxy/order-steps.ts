/**
 * The steps of an upstream order, as a table (docs/decisions/upstream-orders.md). Pure: no clock,
 * no network.
 *
 * Each step is taken from a state that is committed, so a crash repeats at most one of them:
 *
 * | step | does | done twice it |
 * | --- | --- | --- |
 * | order | makes the upstream order | leaves an order that nobody finalizes |
 * | inspect | reads which names are still to be proven | reads again |
 * | place | publishes one response to a challenge | publishes the same once more |
 * | answer | tells the upstream to look | asks only for challenges that still wait |
 * | await | reads whether the upstream is satisfied | reads again |
 * | finalize | sends the CSR | reads first, and sends only while the order is ready |
 * | clean | withdraws one response | withdraws nothing |
 * | collect | downloads the certificate | reads again |
 */

import type { ProblemType } from '../../shared/protocol/problem.ts'

export const STEPS = {
  order: { ordered: 'inspect' },
  inspect: { unproven: 'place', proven: 'await', failed: 'clean' },
  place: { placed: 'answer', failed: 'clean' },
  answer: { answered: 'await', failed: 'clean' },
  await: { ready: 'finalize', finalized: 'clean', failed: 'clean' },
  finalize: { finalized: 'clean', failed: 'clean' },
  clean: { cleaned: 'collect' },
  collect: { ready: 'finalize', failed: 'clean' },
} as const

export type Step = keyof typeof STEPS
export type StepEvent = { [S in Step]: keyof (typeof STEPS)[S] }[Step]

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
  step: Step
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
export function after(state: OrderState, event: StepEvent, nowMs: number, changes: Partial<OrderState> = {}) {
  const next = (STEPS[state.step] as Partial<Record<StepEvent, Step>>)[event]
  if (next === undefined) throw new Error(`the step ${state.step} has no event ${event}`)
  return { ...state, ...changes, step: next, stepSince: nowMs, failures: 0, looks: 0 }
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

/** Pause that ends soon after the bound of the state, since nobody else looks at it before. */
export function withinBounds(state: OrderState, pauseMs: number, limits: OrderLimits, nowMs: number): number {
  if (mayHaveIssued(state) || state.step === 'clean') return pauseMs
  const restMs = state.startedAt + limits.totalMs - nowMs
  const readyMs = state.step === 'await' ? state.stepSince + limits.readyMs - nowMs : restMs
  return Math.min(pauseMs, Math.max(0, Math.min(restMs, readyMs)) + 1)
}

const FIRST_LOOK_MS = 250
const LONGEST_LOOK_MS = 5_000
const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 60_000

/** Pause before the next look at something unchanged. */
export const lookPauseMs = (looks: number) => Math.min(FIRST_LOOK_MS * 2 ** Math.min(looks, 10), LONGEST_LOOK_MS)
/** Pause after a failed try. */
export const retryPauseMs = (failures: number) =>
  Math.min(FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 10), LONGEST_RETRY_MS)
