/**
 * One step of an upstream order: the action of its state, and what an error means there.
 *
 * Before `finalize` has begun an order may be given up; it is cleaned up first. From then on a
 * certificate may exist, so the upstream is asked until it has answered.
 */

import type { Slots } from '../../shared/lib/slots.ts'
import { problemDocument } from '../../shared/protocol/problem.ts'
import { CaError } from '../backend.ts'
import type { BackendState, IssuanceRequest, IssuanceStep, StepOptions } from '../csr-backend.ts'
import type { ChallengeHandler } from './challenge-handler.ts'
import {
  ACTIONS,
  type ActionContext,
  createOrder,
  failed,
  isAboutRequest,
  lateOrder,
  type Outcome,
  problemFor,
} from './order-actions.ts'
import type { OrderAdmission } from './order-admission.ts'
import {
  afterError,
  type Failure,
  follow,
  leaving,
  lookPauseMs,
  mayHaveIssued,
  nextTurn,
  type OrderLimits,
  type OrderState,
  orderedState,
  retryPauseMs,
  withinBounds,
} from './order-steps.ts'
import type { UpstreamAccounts } from './upstream-account.ts'
import { type AcmeClient, isPassing } from './upstream-client.ts'
import type { ChallengeType } from './upstream-order.ts'
import { UpstreamProblem } from './upstream-problem.ts'

const GATE_WAIT_MS = 5_000

interface OrderRunOptions {
  client: AcmeClient
  accounts: UpstreamAccounts
  handler: ChallengeHandler
  /** Bounds the handler's calls. */
  gate: Slots
  admission: OrderAdmission
  challengeType: ChallengeType
  limits: OrderLimits
  /** Tries of a step after the first. */
  maxRetries: number
  note(message: string, facts: object): void
  now?: () => number
}

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

export class OrderRun {
  readonly #options: OrderRunOptions
  readonly #now: () => number

  constructor(options: OrderRunOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  /** @throws CaError */
  advance(request: IssuanceRequest, state: BackendState | undefined, step: StepOptions): Promise<IssuanceStep> {
    return state === undefined || state === null
      ? this.#begin(request, step)
      : this.#proceed(state as unknown as OrderState, request, step)
  }

  /**
   * Withdraws one response of an order that another backend takes over. The upstream order is left
   * behind, and is never finalized.
   * @throws CaError
   */
  async leave(request: IssuanceRequest, state: BackendState, signal: AbortSignal): Promise<IssuanceStep> {
    const { client, accounts, handler, gate, challengeType } = this.#options
    const left = leaving(state as unknown as OrderState)
    const { responses, removed, failure } = left
    if (removed >= responses.length) {
      if (failure && !failure.isPassing) return this.#refuse(request, failure)
      this.#options.admission.end(request.certificateId)
      return { status: 'pending', state: null, retryAfterMs: 0, mayHaveIssued: false }
    }
    try {
      const account = await accounts.current(signal)
      const step = { signal, isRepeated: false, isAbandoned: true }
      const context = { client, account, handler, challengeType, request, step, note: this.#noting(request) }
      const outcome = await gate.run(performance.now() + GATE_WAIT_MS, () => ACTIONS.clean(left, context))
      const changes = outcome && 'changes' in outcome ? outcome.changes : {}
      const next = { ...left, ...changes }
      return pending(next, next.failures === 0 ? 0 : lookPauseMs(next.failures))
    } catch (error) {
      throw retryable(error)
    }
  }

  /** Nothing has begun, so after an error the order may go to another backend. */
  async #begin(request: IssuanceRequest, step: StepOptions): Promise<IssuanceStep> {
    const { admission, accounts, client } = this.#options
    if (step.isAbandoned)
      return unasked(this.#refuse(request, { problem: 'serverInternal', reason: 'the order was given up' }))
    if (!admission.admit(request.certificateId))
      return unasked({ status: 'pending', state: null, retryAfterMs: BUSY_WAIT_MS, mayHaveIssued: false })
    try {
      const account = await accounts.current(step.signal)
      const created = await createOrder({ client, account, request, step })
      return typeof created === 'string'
        ? pending(orderedState(created, this.#now()), 0)
        : this.#refuse(request, created.changes.failure)
    } catch (error) {
      admission.end(request.certificateId)
      await this.#forgetLostAccount(error)
      if (error instanceof UpstreamProblem && isAboutRequest(error)) return this.#refuse(request, failureFrom(error))
      throw retryable(error)
    }
  }

  async #proceed(state: OrderState, request: IssuanceRequest, step: StepOptions): Promise<IssuanceStep> {
    const { admission, limits } = this.#options
    const turn = nextTurn(state, step.isAbandoned, limits, this.#now())
    if (turn.do === 'begin again') return this.#beginAgain(turn.failure, request, step)
    admission.admit(request.certificateId)
    if (turn.do === 'fail') return unasked(this.#follow(state, failed('serverInternal', turn.reason), request))
    if (!this.#claimRecords(state, request)) return unasked(pending(state, BUSY_WAIT_MS))
    const taken = await this.#takeStep(state, turn.lateReason, request, step)
    return usesHandler(state) ? unasked(taken) : taken
  }

  async #takeStep(
    state: OrderState,
    lateReason: string | undefined,
    request: IssuanceRequest,
    step: StepOptions,
  ): Promise<IssuanceStep> {
    const { accounts, client, handler, challengeType } = this.#options
    const account = await accounts.current(step.signal).catch((error) => {
      throw retryable(error, mayHaveIssued(state))
    })
    try {
      const context = { client, account, handler, challengeType, request, step, note: this.#noting(request) }
      const outcome = await this.#act(state, context)
      if (!outcome) return unasked(pending(state, 0))
      const isLate = lateReason !== undefined && 'again' in outcome
      return this.#follow(state, isLate ? await lateOrder(lateReason, state, context) : outcome, request)
    } catch (error) {
      const next = await this.#survive(state, error, request, step)
      return isPassing(error) && !isRateLimit(error) ? { ...next, contact: 'failed' } : next
    }
  }

  /** @returns undefined when the handler has no place free */
  #act(state: OrderState, context: ActionContext): Promise<Outcome | undefined> {
    const { step } = state
    if (step === 'order') throw new Error('a state begins after the step order')
    return usesHandler(state)
      ? this.#options.gate.run(performance.now() + GATE_WAIT_MS, () => ACTIONS[step](state, context))
      : ACTIONS[step](state, context)
  }

  /** A record is deleted by its name, so two orders for it take turns. */
  #claimRecords({ step, responses }: OrderState, { certificateId }: IssuanceRequest): boolean {
    const { challengeType, admission } = this.#options
    if (challengeType !== 'dns-01' || responses.length === 0) return true
    const isFree = admission.claim(
      certificateId,
      responses.map(({ domain }) => domain),
    )
    // Placed responses are not taken back to wait.
    return isFree || step !== 'place'
  }

  #follow(state: OrderState, outcome: Outcome, request: IssuanceRequest): IssuanceStep {
    if ('issued' in outcome) {
      this.#options.admission.end(request.certificateId)
      const [chain = [], ...alternateChains] = outcome.issued
      return { status: 'issued', chain, alternateChains }
    }
    if ('again' in outcome) {
      const next = { ...state, looks: state.looks + 1, ...outcome.changes }
      return this.#pause(next, outcome.waitMs ?? lookPauseMs(state.looks))
    }
    const next = follow(state, outcome.event, this.#now(), outcome.changes)
    if ('refused' in next) return this.#refuse(request, next.refused)
    return pending(next, outcome.event === 'answered' ? lookPauseMs(0) : (outcome.waitMs ?? 0))
  }

  /**
   * An upstream order was given up and cleaned: another backend may take over. Where none does,
   * this is called once more, and makes a new upstream order.
   */
  #beginAgain(failure: Failure, request: IssuanceRequest, step: StepOptions): Promise<IssuanceStep> {
    if (this.#options.admission.end(request.certificateId)) throw new CaError(failure.reason, { retryable: true })
    return this.#begin(request, step)
  }

  /** @throws CaError */
  async #survive(
    state: OrderState,
    error: unknown,
    request: IssuanceRequest,
    { signal, isRepeated }: StepOptions,
  ): Promise<IssuanceStep> {
    if (signal.aborted) throw retryable(error, mayHaveIssued(state))
    await this.#forgetLostAccount(error)
    const { maxRetries } = this.#options
    const event = afterError(state, { isPassing: isPassing(error), isRepeated }, maxRetries)
    switch (event) {
      case 'again': {
        this.#noting(request)('a step of an upstream order failed and is tried again', error)
        const failures = state.failures + 1
        const asked = error instanceof UpstreamProblem ? (error.retryAfterMs ?? 0) : 0
        return this.#pause({ ...state, failures }, Math.max(asked, retryPauseMs(failures)))
      }
      case 'finalized':
        return this.#follow(state, { event }, request)
      case 'failed': {
        const failure = { ...failureFrom(error), isPassing: isPassing(error) }
        return this.#follow(state, { event, changes: { failure } }, request)
      }
      case 'unknown':
        throw new CaError(messageOf(error), { retryable: false, cause: error, mayHaveIssued: true })
    }
  }

  #pause(state: OrderState, pauseMs: number): IssuanceStep {
    const boundedMs = withinBounds(state, pauseMs, this.#options.limits, this.#now())
    return pending(state, Math.min(boundedMs, LONGEST_PAUSE_MS))
  }

  async #forgetLostAccount(error: unknown): Promise<void> {
    if (error instanceof UpstreamProblem && error.type === 'accountDoesNotExist') await this.#options.accounts.forget()
  }

  #refuse({ certificateId }: IssuanceRequest, { problem, reason }: Failure): IssuanceStep {
    this.#options.admission.end(certificateId)
    return { status: 'refused', problem: problemDocument(problem, DETAILS[problem] ?? FAILED), reason }
  }

  #noting({ orderId }: IssuanceRequest): ActionContext['note'] {
    return (message, error) => this.#options.note(message, { orderId, reason: messageOf(error) })
  }
}

/** The handler publishes and withdraws; the upstream is not asked for it. */
const usesHandler = ({ step }: OrderState) => step === 'place' || step === 'clean'

const unasked = (step: IssuanceStep): IssuanceStep => ({ ...step, contact: 'none' })

function pending(state: OrderState, retryAfterMs: number): IssuanceStep {
  return { status: 'pending', state, retryAfterMs, mayHaveIssued: mayHaveIssued(state) }
}

const isRateLimit = (error: unknown) => error instanceof UpstreamProblem && error.isRateLimit
const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

function failureFrom(error: unknown): Failure {
  const problem = error instanceof UpstreamProblem ? problemFor(error.type) : 'serverInternal'
  return { problem, reason: messageOf(error) }
}

function retryable(cause: unknown, mayHaveIssued = false): CaError {
  const retryAfterMs = cause instanceof UpstreamProblem ? cause.retryAfterMs : undefined
  const pauseMs = isRateLimit(cause) ? (retryAfterMs ?? 0) : undefined
  return new CaError(messageOf(cause), { retryable: true, cause, mayHaveIssued, retryAfterMs, pauseMs })
}
