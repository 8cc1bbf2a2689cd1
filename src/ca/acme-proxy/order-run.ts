/**
 * One step of an upstream order: the action of its state, and what an error means there.
 *
 * Before `finalize` has begun an order may be given up; it is cleaned up first. From then on a
 * certificate may exist, so the upstream is asked until it has answered.
 */

import { problemDocument } from '../../shared/protocol/problem.ts'
import { CaError } from '../backend.ts'
import type { BackendState, IssuanceRequest, IssuanceStep, StepOptions } from '../csr-backend.ts'
import type { UpstreamAccounts } from './account.ts'
import { type AcmeClient, isPassing } from './client.ts'
import type { Gate } from './gate.ts'
import type { ChallengeHandler } from './handlers/handler.ts'
import {
  ACTIONS,
  type ActionContext,
  createOrder,
  failed,
  isAboutRequest,
  type Outcome,
  problemFor,
} from './order-actions.ts'
import type { OrderAdmission } from './order-admission.ts'
import {
  after,
  type Failure,
  lookPauseMs,
  mayHaveIssued,
  type OrderLimits,
  type OrderState,
  orderedState,
  overdue,
  retryPauseMs,
} from './order-steps.ts'
import type { ChallengeType } from './upstream-order.ts'
import { UpstreamProblem } from './upstream-problem.ts'

export interface OrderRunOptions {
  client: AcmeClient
  accounts: UpstreamAccounts
  handler: ChallengeHandler
  /** Of the handler's calls. */
  gate: Gate
  admission: OrderAdmission
  challengeType: ChallengeType
  limits: OrderLimits
  /** Tries of a step after the first. */
  maxRetries: number
  note(message: string, facts: object): void
  now?: () => number
}

export type AdvanceOrder = (
  request: IssuanceRequest,
  state: BackendState | undefined,
  step: StepOptions,
) => Promise<IssuanceStep>

/** Nothing was done, since another order has the place. */
const BUSY_WAIT_MS = 500
/** A pause that an upstream asks for in the middle of an order. */
const LONGEST_PAUSE_MS = 3_600_000
const FAILED = 'the CA behind this service did not issue the certificate'

const DETAILS: Partial<Record<Failure['problem'], string>> = {
  badCSR: 'the CA behind this service refused the CSR',
  caa: 'CAA records forbid the CA behind this service to issue for a name of the order',
  rejectedIdentifier: 'the CA behind this service does not certify a name of the order',
  unsupportedIdentifier: 'the CA behind this service does not certify a name of the order',
}

export function createOrderRun(options: OrderRunOptions): AdvanceOrder {
  const {
    client,
    accounts,
    handler,
    gate,
    admission,
    challengeType,
    limits,
    maxRetries,
    note,
    now = Date.now,
  } = options

  /** @throws CaError: nothing has begun, so the order may go to another backend */
  async function begin(request: IssuanceRequest, step: StepOptions): Promise<IssuanceStep> {
    if (step.isAbandoned) return refuse(request, { problem: 'serverInternal', reason: 'the order was given up' })
    const pausedMs = admission.pausedForMs()
    if (pausedMs > 0) throw new CaError('the upstream asked for a pause', { retryable: true, retryAfterMs: pausedMs })
    if (!admission.admit(request.certificateId))
      return { status: 'pending', state: null, retryAfterMs: BUSY_WAIT_MS, mayHaveIssued: false }
    try {
      const account = await accounts.current(step.signal)
      const created = await createOrder({ client, account, request, step })
      return typeof created === 'string'
        ? pending(orderedState(created, now()), 0)
        : refuse(request, created.changes.failure)
    } catch (error) {
      admission.end(request.certificateId)
      if (error instanceof UpstreamProblem && error.retryAfterMs !== undefined)
        admission.pauseUntil(now() + Math.min(error.retryAfterMs, LONGEST_PAUSE_MS))
      await forgetLostAccount(error)
      if (error instanceof UpstreamProblem && isAboutRequest(error)) return refuse(request, failureFrom(error))
      throw retryable(error)
    }
  }

  async function proceed(state: OrderState, request: IssuanceRequest, step: StepOptions): Promise<IssuanceStep> {
    admission.admit(request.certificateId)
    const reason = step.isAbandoned && !mayHaveIssued(state) ? 'the order was given up' : overdue(state, limits, now())
    if (reason !== undefined && state.step !== 'clean') return follow(state, failed('serverInternal', reason), request)
    if (state.step === 'order') throw new Error('a state begins after the step order')
    if (!claimRecords(state, request)) return pending(state, BUSY_WAIT_MS)
    const account = await accounts.current(step.signal).catch((error) => {
      throw retryable(error, mayHaveIssued(state))
    })
    try {
      const context = { client, account, handler, challengeType, request, step, note: noting(request) }
      const outcome = await act(state, context)
      return outcome ? follow(state, outcome, request) : pending(state, 0)
    } catch (error) {
      return survive(state, error, request, step)
    }
  }

  /** @returns undefined when the handler has no place free */
  function act(state: OrderState, context: ActionContext): Promise<Outcome | undefined> {
    const action = ACTIONS[state.step as keyof typeof ACTIONS]
    const usesHandler = state.step === 'place' || state.step === 'clean'
    return usesHandler ? gate.run(() => action(state, context)) : action(state, context)
  }

  /** A record is deleted by its name, so two orders for it take turns. */
  function claimRecords({ step, responses }: OrderState, { certificateId }: IssuanceRequest): boolean {
    if (challengeType !== 'dns-01' || responses.length === 0) return true
    const isFree = admission.claim(
      certificateId,
      responses.map(({ domain }) => domain),
    )
    // What has been placed is not taken back to wait.
    return isFree || step !== 'place'
  }

  function follow(state: OrderState, outcome: Outcome, request: IssuanceRequest): IssuanceStep {
    if ('issued' in outcome) {
      admission.end(request.certificateId)
      const [chain = [], ...alternateChains] = outcome.issued
      return { status: 'issued', chain, alternateChains }
    }
    if ('again' in outcome) {
      const next = { ...state, looks: state.looks + 1, ...outcome.changes }
      return pending(next, Math.min(outcome.waitMs ?? lookPauseMs(state.looks), LONGEST_PAUSE_MS))
    }
    const next = after(state, outcome.event, now(), outcome.changes)
    if (next.step === 'collect' && next.failure) return refuse(request, next.failure)
    if (next.step !== 'clean')
      return pending(next, outcome.event === 'answered' ? lookPauseMs(0) : (waitOf(outcome) ?? 0))
    return toCleaning(next, request)
  }

  /** Responses that may be out there: those placed, and the one that was being placed. */
  function toCleaning(state: OrderState, request: IssuanceRequest): IssuanceStep {
    const responses = state.responses.slice(0, state.placed + 1)
    if (responses.length > state.removed) return pending({ ...state, responses }, 0)
    return state.failure ? refuse(request, state.failure) : pending(after(state, 'cleaned', now()), 0)
  }

  /** @throws CaError */
  async function survive(
    state: OrderState,
    error: unknown,
    request: IssuanceRequest,
    { signal }: StepOptions,
  ): Promise<IssuanceStep> {
    if (signal.aborted) throw retryable(error, mayHaveIssued(state))
    await forgetLostAccount(error)
    const failures = state.failures + 1
    const isOver = failures > maxRetries && !mayHaveIssued(state)
    if (isPassing(error) && !isOver) {
      noting(request)('a step of an upstream order failed and is tried again', error)
      const asked = error instanceof UpstreamProblem ? (error.retryAfterMs ?? 0) : 0
      return pending({ ...state, failures }, Math.min(Math.max(asked, retryPauseMs(failures)), LONGEST_PAUSE_MS))
    }
    // The CSR was refused or not sent: nothing was issued.
    if (state.step !== 'collect')
      return follow(state, { event: 'failed', changes: { failure: failureFrom(error) } }, request)
    throw new CaError(messageOf(error), { retryable: false, cause: error, mayHaveIssued: true })
  }

  async function forgetLostAccount(error: unknown): Promise<void> {
    if (error instanceof UpstreamProblem && error.type === 'accountDoesNotExist') await accounts.forget()
  }

  function refuse({ certificateId }: IssuanceRequest, { problem, reason }: Failure): IssuanceStep {
    admission.end(certificateId)
    return { status: 'refused', problem: problemDocument(problem, DETAILS[problem] ?? FAILED), reason }
  }

  const noting =
    ({ orderId }: IssuanceRequest) =>
    (message: string, error: unknown) =>
      note(message, { orderId, reason: messageOf(error) })

  return (request, state, step) =>
    state === undefined || state === null
      ? begin(request, step)
      : proceed(state as unknown as OrderState, request, step)
}

function pending(state: OrderState, retryAfterMs: number): IssuanceStep {
  return { status: 'pending', state, retryAfterMs, mayHaveIssued: mayHaveIssued(state) }
}

const waitOf = (outcome: Outcome) => ('waitMs' in outcome ? outcome.waitMs : undefined)
const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

function failureFrom(error: unknown): Failure {
  const problem = error instanceof UpstreamProblem ? problemFor(error.type) : 'serverInternal'
  return { problem, reason: messageOf(error) }
}

function retryable(cause: unknown, mayHaveIssued = false): CaError {
  const retryAfterMs = cause instanceof UpstreamProblem ? cause.retryAfterMs : undefined
  return new CaError(messageOf(cause), { retryable: true, cause, mayHaveIssued, retryAfterMs })
}
