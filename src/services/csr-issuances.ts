/**
 * Issuances from a CSR in the supervisor (docs/decisions/backends.md).
 *
 *   1 The supervisor claims the row for one step.
 *   2 `nextStep` (domain/csr-issuance.ts) decides by the row and the last outcome.
 *   3 The step asks the backend, withdraws, hands over, records or fails.
 *   4 It commits the outcome. `CSR_ISSUANCE` (domain/states.ts) guards each write.
 *
 * A crash between 3 and 4 repeats the step with `isRepeated`. An order that fails while a
 * certificate may exist leaves its row, and what comes is recorded as revoked.
 */

import { CaError } from '../ca/backend.ts'
import type { BackendState, IssuanceStep } from '../ca/csr-backend.ts'
import { type GuardedCsrBackend, LeftAlone } from '../ca/guarded-backend.ts'
import {
  isAbandoned,
  isRepetition,
  isSigner,
  type NextStep,
  nextStep,
  type ProgressEvent,
  type StepOutcome,
  type Surroundings,
  statusOnEvent,
  type Waits,
} from '../domain/csr-issuance.ts'
import { within } from '../shared/lib/time-limit.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'
import type { ClaimedIssuance, CsrIssuanceStore, Progress } from '../store/csr-issuance-store.ts'
import {
  type BackendFacts,
  type CsrOutcome,
  factsOf,
  type Left,
  leaveBackend,
  requestOf,
  type SignerTurn,
} from './csr-step.ts'
import type { ReceivedCertificates } from './received-certificates.ts'
import { LAPSE_PROBLEMS } from './recovery.ts'

/** None may throw or wait. */
interface CsrIssuanceEvents {
  /** A step has thrown; what follows is in the error. */
  stepFailed(error: CaError, facts: BackendFacts): void
  /** The CA has refused for good; `reason` is its own, for the log. */
  refused(reason: string, facts: BackendFacts): void
  /** Another backend is asked in its place. */
  failedOver(from: string, to: string, facts: BackendFacts): void
  /** A backend could not withdraw its publications for an order; they stay while another backend is asked. */
  notWithdrawn(error: unknown, facts: BackendFacts): void
  /** The order has failed while a certificate may exist. */
  abandoned(facts: BackendFacts): void
  /** A database fault; the row is taken up again when its lease is over. */
  interrupted(error: unknown, facts: BackendFacts): void
  alarm(message: string, cause: unknown, facts: BackendFacts): void
}

export interface CsrIssuancesOptions {
  backends: ReadonlyMap<string, GuardedCsrBackend>
  /** The backends of a profile in order, the signer's name among them; empty for an unknown one. */
  candidatesOf(profile: string): readonly string[]
  store: CsrIssuanceStore
  received: ReceivedCertificates
  signer: {
    isUsable(): boolean
    /** Moves the issuance to the signer. `pending` leaves it there, or here when it did not move. */
    issue(issuance: ClaimedIssuance): Promise<SignerTurn>
  }
  isStopped(): boolean
  instanceId: number
  /** Age at which an order fails, in seconds. */
  timeoutSeconds: number
  events: CsrIssuanceEvents
}

/** Steps under way in one instance; each holds a CSR and an open request. */
const MOST_RUNNING = 256
const LEASE_MARGIN_SECONDS = 30
/** Before the end of a lease, nothing of its row is tried again. */
const LEASE_RESERVE_SECONDS = 5

/** An outcome for `nextStep`, with the values that its step needs in addition. */
type Outcome =
  | Exclude<StepOutcome, { status: 'pending' | 'issued' | 'error' }>
  | (IssuanceStep & { status: 'pending' })
  | { status: 'issued'; answer: IssuanceStep & { status: 'issued' }; leaseUntil: number }
  | (StepOutcome & { status: 'error'; error: CaError })

/** A row, and the outcome that the next step follows. */
interface Turn {
  row: ClaimedIssuance
  outcome: Outcome
}

type StepOf<D extends NextStep['do']> = NextStep & { do: D }

export class CsrIssuances {
  readonly #options: CsrIssuancesOptions
  readonly #leaseSeconds: number
  readonly #running = new Set<Promise<unknown>>()
  #isClosed = false
  #isCutOff = false

  constructor(options: CsrIssuancesOptions) {
    this.#options = options
    const longest = Math.max(0, ...[...options.backends.values()].map(({ stepTimeoutMs }) => stepTimeoutMs))
    this.#leaseSeconds = longest / 1000 + LEASE_MARGIN_SECONDS
  }

  /** Claims what is due and begins its steps. @returns how many rows it has claimed */
  async round(): Promise<number> {
    const free = MOST_RUNNING - this.#running.size
    if (free <= 0 || this.#isClosed) return 0
    const due = await this.#options.store.claimDue(this.#holder, free)
    for (const row of due) void this.#run(row)
    return due.length
  }

  /** Takes the steps of an issuance that has just begun, until it ends or has to wait. */
  async issue(certificateId: string): Promise<CsrOutcome> {
    if (this.#running.size >= MOST_RUNNING || this.#isClosed) return 'pending'
    const row = await this.#options.store.claim(certificateId, this.#holder)
    return row ? this.#run(row) : 'pending'
  }

  /**
   * Begins nothing more, and resolves when the steps under way have ended. The next start repeats
   * a step that the deadline has cut off.
   */
  async drain(deadlineMs: number): Promise<void> {
    this.#isClosed = true
    await within(Promise.all(this.#running), deadlineMs, undefined)
    this.#isCutOff = true
  }

  get #holder() {
    return { instanceId: this.#options.instanceId, leaseSeconds: this.#leaseSeconds }
  }

  #run(row: ClaimedIssuance): Promise<CsrOutcome> {
    const run = this.#drive(row)
    this.#running.add(run)
    void run.finally(() => this.#running.delete(run))
    return run
  }

  /** Never throws. */
  async #drive(claimed: ClaimedIssuance): Promise<CsrOutcome> {
    const startedAt = performance.now()
    let turn: Turn = { row: claimed, outcome: { status: 'claimed' } }
    try {
      for (;;) {
        const ageSeconds = claimed.ageSeconds + (performance.now() - startedAt) / 1000
        const row: ClaimedIssuance = { ...turn.row, ageSeconds }
        const next = await this.#take(nextStep(row, turn.outcome, this.#surroundings(row)), row, turn.outcome)
        if (typeof next === 'string') return next
        turn = next
      }
    } catch (error) {
      this.#options.events.interrupted(error, factsOf(turn.row))
      return 'pending'
    }
  }

  #surroundings({ profile, backend, lapse }: ClaimedIssuance): Surroundings {
    const { candidatesOf, isStopped, timeoutSeconds } = this.#options
    const candidates = candidatesOf(profile)
    const waits = new Map<string, Waits>()
    for (const name of new Set([backend, ...candidates])) {
      const one = this.#waitsOf(name)
      if (one) waits.set(name, one)
    }
    const lapsed = lapse === undefined ? undefined : LAPSE_PROBLEMS[lapse]
    return { candidates, waits, isStopped: isStopped(), isClosing: this.#isClosed, lapsed, timeoutSeconds }
  }

  #waitsOf(name: string): Waits | undefined {
    const { backends, signer } = this.#options
    if (isSigner(name)) return signer.isUsable() ? { first: 0, next: 0 } : undefined
    const backend = backends.get(name)
    return backend && { first: backend.newRetryAfterMs(), next: backend.retryAfterMs() }
  }

  /** @param outcome the one that `step` follows */
  #take(step: NextStep, row: ClaimedIssuance, outcome: Outcome): Promise<CsrOutcome | Turn> {
    switch (step.do) {
      case 'ask':
        return this.#ask(row)
      case 'hand over':
        return this.#handOver(row, step)
      case 'give to signer':
        return this.#giveToSigner(row)
      case 'take from signer':
        return this.#takeFromSigner(row, step)
      case 'commit':
        return this.#commit(row, step, outcome as Outcome & { status: 'pending' })
      case 'rest':
        return this.#rest(row, step)
      case 'record': {
        const { answer, leaseUntil } = outcome as Outcome & { status: 'issued' }
        return this.#options.received.take(row, answer, leaseUntil)
      }
      case 'abandon':
        return this.#abandon(row, step.error)
      case 'fail':
        return this.#fail(row, step, outcome)
    }
  }

  async #ask(row: ClaimedIssuance): Promise<CsrOutcome | Turn> {
    const backend = this.#options.backends.get(row.backend)
    if (!backend) throw new Error(`there is no backend ${row.backend}`)
    // The claim, or the commit of the last step, has begun the lease a moment ago.
    const leaseUntil = performance.now() + (this.#leaseSeconds - LEASE_RESERVE_SECONDS) * 1000
    try {
      const answer = await backend.advance(requestOf(row), row.state as BackendState | undefined, {
        isRepeated: isRepetition(row),
        isAbandoned: isAbandoned(row.status),
      })
      if (answer.status === 'refused') this.#options.events.refused(answer.reason, factsOf(row))
      return { row, outcome: answer.status === 'issued' ? { status: 'issued', answer, leaseUntil } : answer }
    } catch (cause) {
      if (this.#isCutOff) return 'pending'
      // Another issuance was let through first; the choice is made again.
      if (cause instanceof LeftAlone) return { row, outcome: { status: 'claimed' } }
      const error = asCaError(cause)
      this.#options.events.stepFailed(error, factsOf(row))
      const { retryable, mayHaveIssued, retryAfterMs } = error
      return { row, outcome: { status: 'error', retryable, mayHaveIssued, retryAfterMs, error } }
    }
  }

  async #handOver(row: ClaimedIssuance, { to, hasFailed }: StepOf<'hand over'>): Promise<CsrOutcome | Turn> {
    if (hasFailed) this.#options.events.failedOver(row.backend, to, factsOf(row))
    const left = await this.#leave(row)
    if (left?.status === 'refused') return { row, outcome: left }
    if (left?.status === 'held elsewhere') return 'pending'
    // The signer takes the row from the backend that it had.
    const moved = { ...row, backend: isSigner(to) ? row.backend : to, state: undefined, isRepeated: false, failures: 0 }
    const next = await this.#save(moved, 'move', { isRunning: true, dueInSeconds: this.#leaseSeconds })
    return next ? { row: next, outcome: { status: 'moved', to } } : 'pending'
  }

  /** Another backend is asked even where something stays published. */
  async #leave(row: ClaimedIssuance): Promise<Left | undefined> {
    const { backends, events } = this.#options
    const lease = { isRunning: true, dueInSeconds: this.#leaseSeconds }
    const save = async (state: BackendState) => (await this.#save({ ...row, state }, 'open', lease)) !== undefined
    try {
      const left = await leaveBackend(backends.get(row.backend), row, save)
      if (left.status === 'refused') events.refused(left.reason, factsOf(row))
      return left
    } catch (error) {
      if (this.#isCutOff || !(error instanceof CaError)) throw error
      events.notWithdrawn(error, factsOf(row))
      return undefined
    }
  }

  async #giveToSigner(row: ClaimedIssuance): Promise<CsrOutcome | Turn> {
    try {
      const ended = await this.#options.signer.issue(row)
      return ended === 'unsigned' || ended === 'not given' ? { row, outcome: { status: ended } } : ended
    } catch (error) {
      this.#options.events.interrupted(error, factsOf(row))
      return { row, outcome: { status: 'not given' } }
    }
  }

  async #takeFromSigner(row: ClaimedIssuance, step: StepOf<'take from signer'>): Promise<CsrOutcome | Turn> {
    const { store, instanceId, events } = this.#options
    const { signer, to, failures, restSeconds: dueInSeconds } = step
    const isTaken = await store.takeFromSigner({
      ...row,
      backend: to ?? row.backend,
      instanceId,
      failures,
      dueInSeconds,
    })
    if (!isTaken || to === undefined) return 'pending'
    events.failedOver(signer, to, factsOf(row))
    const claimed = await store.claim(row.certificateId, this.#holder)
    return claimed ? { row: claimed, outcome: { status: 'claimed' } } : 'pending'
  }

  async #commit(
    row: ClaimedIssuance,
    { event, restSeconds }: StepOf<'commit'>,
    { state }: Outcome & { status: 'pending' },
  ): Promise<CsrOutcome | Turn> {
    const isRunning = restSeconds === undefined
    const answered = { ...row, state, isRepeated: false, failures: 0 }
    const next = await this.#save(answered, event, { isRunning, dueInSeconds: restSeconds ?? this.#leaseSeconds })
    return next && isRunning ? { row: next, outcome: { status: 'claimed' } } : 'pending'
  }

  async #rest(row: ClaimedIssuance, step: StepOf<'rest'>): Promise<CsrOutcome> {
    const { event, isRepeated, failures, restSeconds } = step
    await this.#save({ ...row, failures }, event, { isRunning: isRepeated, dueInSeconds: restSeconds })
    return 'pending'
  }

  async #abandon(row: ClaimedIssuance, error: ProblemDocument): Promise<CsrOutcome | Turn> {
    const { store, instanceId, events } = this.#options
    if (!(await store.abandon(row.certificateId, instanceId, error))) return 'pending'
    events.abandoned(factsOf(row))
    const abandoned = { ...row, status: statusOnEvent(row.status, 'abandon'), abandonedSeconds: 0 }
    return { row: abandoned, outcome: { status: 'claimed' } }
  }

  async #fail(row: ClaimedIssuance, { error, alarm }: StepOf<'fail'>, outcome: Outcome): Promise<CsrOutcome> {
    const { store, instanceId, events } = this.#options
    if (alarm !== undefined) events.alarm(alarm, outcome.status === 'error' ? outcome.error : undefined, factsOf(row))
    await store.fail(row.certificateId, instanceId, error)
    return 'failed'
  }

  /** @returns the row as it is now; undefined when another instance holds it */
  async #save(row: ClaimedIssuance, event: ProgressEvent, until: Pick<Progress, 'isRunning' | 'dueInSeconds'>) {
    const status = statusOnEvent(row.status, event)
    const { certificateId, backend, state, failures } = row
    const progress = { certificateId, event, backend, state, failures, ...until }
    const isSaved = await this.#options.store.save(progress, this.#options.instanceId)
    return isSaved ? { ...row, status } : undefined
  }
}

/** After a fault of our own, the backend may have issued. */
function asCaError(cause: unknown): CaError {
  if (cause instanceof CaError) return cause
  return new CaError('the backend failed', { retryable: true, mayHaveIssued: true, cause })
}
