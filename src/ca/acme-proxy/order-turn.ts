/**
 * One turn of an upstream order: the action of its step, and what an error means there.
 *
 * Before `finalize` has begun an order may be given up; it is cleaned up first. From then on a
 * certificate may exist, so the upstream is asked until it has answered.
 */

import { messageOf } from '../../shared/lib/errors.ts'
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
  hasToWithdraw,
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
import { type AcmeClient, isPassing, sessionOf } from './upstream-client.ts'
import type { ChallengeType } from './upstream-order.ts'
import { UpstreamProblem } from './upstream-problem.ts'

const GATE_WAIT_MS = 5_000

export interface OrderParts {
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

export class OrderTurn {
  readonly #parts: OrderParts
  readonly #request: IssuanceRequest
  readonly #step: StepOptions

  constructor(parts: OrderParts, request: IssuanceRequest, step: StepOptions) {
    this.#parts = parts
    this.#request = request
    this.#step = step
  }

  /** @throws CaError */
  take(state: BackendState | undefined): Promise<IssuanceStep> {
    return state === undefined || state === null ? this.#begin() : this.#proceed(state as unknown as OrderState)
  }

  /**
   * Withdraws one response of an order that another backend takes over. The upstream order is left
   * behind, and is never finalized.
   * @throws CaError
   */
  async leave(state: BackendState): Promise<IssuanceStep> {
    const left = leaving(state as unknown as OrderState)
    if (!hasToWithdraw(left)) {
      if (left.failure && !left.failure.isPassing) return this.#refuse(left.failure)
      this.#end()
      return { status: 'pending', state: null, retryAfterMs: 0, mayHaveIssued: false }
    }
    try {
      const outcome = await this.#act(left, await this.#context())
      const changes = outcome && 'changes' in outcome ? outcome.changes : {}
      const next = { ...left, ...changes }
      return pending(next, next.failures === 0 ? 0 : lookPauseMs(next.failures))
    } catch (error) {
      throw retryable(error)
    }
  }

  /** Nothing has begun, so after an error the order may go to another backend. */
  async #begin(): Promise<IssuanceStep> {
    if (this.#step.isAbandoned)
      return unasked(this.#refuse({ problem: 'serverInternal', reason: 'the order was given up' }))
    if (!this.#parts.admission.admit(this.#request.certificateId))
      return unasked({ status: 'pending', state: null, retryAfterMs: BUSY_WAIT_MS, mayHaveIssued: false })
    try {
      const created = await createOrder(await this.#context())
      if (typeof created !== 'string') return this.#refuse(created.changes.failure)
      return pending(orderedState(created, Date.now()), 0)
    } catch (error) {
      this.#end()
      await this.#forgetLostAccount(error)
      if (error instanceof UpstreamProblem && isAboutRequest(error)) return this.#refuse(failureFrom(error))
      throw retryable(error)
    }
  }

  async #proceed(state: OrderState): Promise<IssuanceStep> {
    const { admission, limits } = this.#parts
    const turn = nextTurn(state, this.#step.isAbandoned, limits, Date.now())
    if (turn.do === 'begin again') return this.#beginAgain(turn.failure)
    admission.admit(this.#request.certificateId)
    if (turn.do === 'fail') return unasked(this.#follow(state, failed('serverInternal', turn.reason)))
    if (!this.#claimRecords(state)) return unasked(pending(state, BUSY_WAIT_MS))
    const taken = await this.#takeStep(state, turn.lateReason)
    return usesHandler(state) ? unasked(taken) : taken
  }

  /**
   * An upstream order was given up and cleaned: another backend may take over. Where none does,
   * this is called once more, and makes a new upstream order.
   */
  #beginAgain(failure: Failure): Promise<IssuanceStep> {
    if (this.#end()) throw new CaError(failure.reason, { retryable: true })
    return this.#begin()
  }

  async #takeStep(state: OrderState, lateReason: string | undefined): Promise<IssuanceStep> {
    const context = await this.#context().catch((error) => {
      throw retryable(error, mayHaveIssued(state))
    })
    try {
      const outcome = await this.#act(state, context)
      if (!outcome) return unasked(pending(state, 0))
      const isLate = lateReason !== undefined && 'again' in outcome
      return this.#follow(state, isLate ? await lateOrder(lateReason, state, context) : outcome)
    } catch (error) {
      const next = await this.#survive(state, error)
      return isPassing(error) && !isRateLimit(error) ? { ...next, contact: 'failed' } : next
    }
  }

  async #context(): Promise<ActionContext> {
    const { client, accounts, handler, challengeType } = this.#parts
    const [request, step] = [this.#request, this.#step]
    const session = sessionOf(client, await accounts.current(step.signal), step.signal)
    return { session, handler, challengeType, request, step, note: (message, error) => this.#note(message, error) }
  }

  /** @returns undefined when the handler has no place free */
  #act(state: OrderState, context: ActionContext): Promise<Outcome | undefined> {
    const { step } = state
    if (step === 'order') throw new Error('a state begins after the step order')
    return usesHandler(state)
      ? this.#parts.gate.run(performance.now() + GATE_WAIT_MS, () => ACTIONS[step](state, context))
      : ACTIONS[step](state, context)
  }

  /** A record is deleted by its name, so two orders for it take turns. */
  #claimRecords({ step, responses }: OrderState): boolean {
    const { challengeType, admission } = this.#parts
    if (challengeType !== 'dns-01' || responses.length === 0) return true
    const domains = responses.map(({ domain }) => domain)
    // Placed responses are not taken back to wait.
    return admission.claim(this.#request.certificateId, domains) || step !== 'place'
  }

  #follow(state: OrderState, outcome: Outcome): IssuanceStep {
    if ('issued' in outcome) {
      this.#end()
      const [chain = [], ...alternateChains] = outcome.issued
      return { status: 'issued', chain, alternateChains }
    }
    if ('again' in outcome) {
      const next = { ...state, looks: state.looks + 1, ...outcome.changes }
      return this.#pause(next, outcome.waitMs ?? lookPauseMs(state.looks))
    }
    const next = follow(state, outcome.event, Date.now(), outcome.changes)
    if ('refused' in next) return this.#refuse(next.refused)
    return pending(next, outcome.event === 'answered' ? lookPauseMs(0) : (outcome.waitMs ?? 0))
  }

  /** @throws CaError */
  async #survive(state: OrderState, error: unknown): Promise<IssuanceStep> {
    const { signal, isRepeated } = this.#step
    if (signal.aborted) throw retryable(error, mayHaveIssued(state))
    await this.#forgetLostAccount(error)
    const event = afterError(state, { isPassing: isPassing(error), isRepeated }, this.#parts.maxRetries)
    switch (event) {
      case 'again':
        return this.#tryAgain(state, error)
      case 'finalized':
        return this.#follow(state, { event })
      case 'failed': {
        const failure = { ...failureFrom(error), isPassing: isPassing(error) }
        return this.#follow(state, { event, changes: { failure } })
      }
      case 'unknown':
        throw new CaError(messageOf(error), { retryable: false, cause: error, mayHaveIssued: true })
    }
  }

  #tryAgain(state: OrderState, error: unknown): IssuanceStep {
    this.#note('a step of an upstream order failed and is tried again', error)
    const failures = state.failures + 1
    const asked = error instanceof UpstreamProblem ? (error.retryAfterMs ?? 0) : 0
    return this.#pause({ ...state, failures }, Math.max(asked, retryPauseMs(failures)))
  }

  #pause(state: OrderState, pauseMs: number): IssuanceStep {
    const boundedMs = withinBounds(state, pauseMs, this.#parts.limits, Date.now())
    return pending(state, Math.min(boundedMs, LONGEST_PAUSE_MS))
  }

  async #forgetLostAccount(error: unknown): Promise<void> {
    if (error instanceof UpstreamProblem && error.type === 'accountDoesNotExist') await this.#parts.accounts.forget()
  }

  #refuse({ problem, reason }: Failure): IssuanceStep {
    this.#end()
    return { status: 'refused', problem: problemDocument(problem, DETAILS[problem] ?? FAILED), reason }
  }

  #note(message: string, error: unknown): void {
    this.#parts.note(message, { orderId: this.#request.orderId, reason: messageOf(error) })
  }

  /** @returns whether the order was open */
  #end(): boolean {
    return this.#parts.admission.end(this.#request.certificateId)
  }
}

/** The handler publishes and withdraws; the upstream is not asked for it. */
const usesHandler = ({ step }: OrderState) => step === 'place' || step === 'clean'

const unasked = (step: IssuanceStep): IssuanceStep => ({ ...step, contact: 'none' })

function pending(state: OrderState, retryAfterMs: number): IssuanceStep {
  return { status: 'pending', state, retryAfterMs, mayHaveIssued: mayHaveIssued(state) }
}

const isRateLimit = (error: unknown) => error instanceof UpstreamProblem && error.isRateLimit

function failureFrom(error: unknown): Failure {
  const problem = error instanceof UpstreamProblem ? problemFor(error.type) : 'serverInternal'
  return { problem, reason: messageOf(error) }
}

function retryable(cause: unknown, mayHaveIssued = false): CaError {
  const retryAfterMs = cause instanceof UpstreamProblem ? cause.retryAfterMs : undefined
  const pauseMs = isRateLimit(cause) ? (retryAfterMs ?? 0) : undefined
  return new CaError(messageOf(cause), { retryable: true, cause, mayHaveIssued, retryAfterMs, pauseMs })
}
