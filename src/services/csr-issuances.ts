/**
 * Issuances from a CSR in the supervisor (docs/decisions/backends.md).
 *
 *   1 claim    the row, for one step; what ended its order is found here
 *   2 choose   the backend: the one that has begun it, else the first of the profile that is there
 *   3 step     the backend answers
 *   4 commit   the answer: a new state, a certificate that has passed its checks, or a failure
 *
 * A crash between 3 and 4 repeats the step with `isRepeated`. An order that fails while a
 * certificate may exist leaves its row, and what comes is recorded as revoked.
 */

import { CaError } from '../ca/backend.ts'
import type { BackendState, IssuanceStep } from '../ca/csr-backend.ts'
import { type GuardedCsrBackend, LeftAlone } from '../ca/guarded-csr-backend.ts'
import { abandonedRestSeconds, isSigner, LONGEST_ABANDONED_SECONDS, restSeconds } from '../domain/csr-issuance.ts'
import { within } from '../shared/lib/time-limit.ts'
import { type ProblemDocument, problemDocument } from '../shared/protocol/problem.ts'
import type { ClaimedIssuance, CsrIssuanceStore, Progress } from '../store/csr-issuance-store.ts'
import { type BackendFacts, type CsrOutcome, factsOf, leaveBackend, requestOf } from './csr-step.ts'
import type { ReceivedCertificates } from './received-certificates.ts'
import { LAPSE_PROBLEMS, OVERDUE } from './recovery.ts'
import type { SignerTurn } from './signer-turn.ts'

/** None may throw or wait. */
export interface CsrIssuanceEvents {
  /** A step has thrown; what follows is in the error. */
  stepFailed(error: CaError, facts: BackendFacts): void
  /** The CA has refused for good; `reason` is its own, for the log. */
  refused(reason: string, facts: BackendFacts): void
  /** Another backend is asked in its place. */
  failedOver(from: string, to: string, facts: BackendFacts): void
  /** What a backend has published for an order stays there, while another one is asked. */
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
/** Rest of a row whose backend the configuration no longer has, or while the operator stops signing. */
const LONG_REST_SECONDS = 15
const REFUSED = problemDocument('serverInternal', 'the CA did not issue this certificate')

type Choice = { backend: GuardedCsrBackend } | 'signer' | { restSeconds: number }

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
   * Begins nothing more, and resolves when the steps under way have ended. Those that are cut off
   * after the deadline are repeated by the next start.
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
    let row = claimed
    const startedAt = performance.now()
    try {
      for (;;) {
        const next = await this.#advance(row)
        if (typeof next === 'string') return next
        row = { ...next, ageSeconds: claimed.ageSeconds + (performance.now() - startedAt) / 1000 }
      }
    } catch (error) {
      this.#options.events.interrupted(error, factsOf(row))
      return 'pending'
    }
  }

  /** One step. @returns the row for the next one when that follows at once */
  async #advance(row: ClaimedIssuance): Promise<CsrOutcome | ClaimedIssuance> {
    const ended = row.abandonedSeconds === undefined ? this.#whatEnds(row) : undefined
    if (ended) return this.#giveUp(row, ended)
    if ((row.abandonedSeconds ?? 0) > LONGEST_ABANDONED_SECONDS) return this.#forget(row)
    const choice = this.#choose(row)
    if (choice === 'signer') return row.state === undefined ? this.#bySigner(row) : this.#goTo(row, choice)
    if ('restSeconds' in choice) return this.#rest(row, choice.restSeconds)
    const { backend } = choice
    return backend.name === row.backend ? this.#step(row, backend) : this.#goTo(row, backend)
  }

  /** The error of an order that gets no certificate any more. */
  #whatEnds({ lapse, ageSeconds }: ClaimedIssuance): ProblemDocument | undefined {
    if (lapse !== undefined) return LAPSE_PROBLEMS[lapse]
    return ageSeconds > this.#options.timeoutSeconds ? OVERDUE : undefined
  }

  async #giveUp(row: ClaimedIssuance, error: ProblemDocument): Promise<CsrOutcome | ClaimedIssuance> {
    const { store, instanceId, events } = this.#options
    // With a state, the backend may have something to clean up.
    if (!row.mayHaveIssued && !row.isRepeated && row.state === undefined) {
      await store.fail(row.certificateId, instanceId, error)
      return 'failed'
    }
    if (!(await store.abandon(row.certificateId, instanceId, error))) return 'pending'
    events.abandoned(factsOf(row))
    return { ...row, abandonedSeconds: 0 }
  }

  async #forget(row: ClaimedIssuance): Promise<CsrOutcome> {
    const { store, instanceId, events } = this.#options
    if (row.mayHaveIssued || row.isRepeated)
      events.alarm('a certificate that may exist at the CA has not been fetched; look there', undefined, factsOf(row))
    await store.fail(row.certificateId, instanceId, OVERDUE)
    return 'failed'
  }

  #choose(row: ClaimedIssuance): Choice {
    const { backends, candidatesOf, isStopped } = this.#options
    if (isStopped()) return { restSeconds: LONG_REST_SECONDS }
    const isBound = row.mayHaveIssued || row.isRepeated || row.abandonedSeconds !== undefined
    const candidates = isBound ? [] : candidatesOf(row.profile)
    // The backends before the first one of a row were away. What was only opened may be left behind,
    // but is gone on with where that is possible.
    const goesOn = candidates.length === 0 || row.failures === 0 || row.state !== undefined
    const names = goesOn ? [row.backend, ...candidates] : candidates
    let restMs = LONG_REST_SECONDS * 1000
    for (const name of names) {
      if (isSigner(name)) {
        if (this.#options.signer.isUsable()) return 'signer'
        continue
      }
      const backend = backends.get(name)
      const isNew = !isBound && row.state === undefined
      const waitMs = (isNew || name !== row.backend ? backend?.newRetryAfterMs() : backend?.retryAfterMs()) ?? restMs
      if (backend && waitMs === 0) return { backend }
      restMs = Math.min(restMs, waitMs)
    }
    return { restSeconds: restMs / 1000 }
  }

  async #rest(row: ClaimedIssuance, seconds: number): Promise<CsrOutcome> {
    await this.#save(row, { isRunning: row.isRepeated, dueInSeconds: this.#inTime(row, seconds) })
    return 'pending'
  }

  /** Another backend than that of the row goes on. */
  async #goTo(row: ClaimedIssuance, next: GuardedCsrBackend | 'signer'): Promise<CsrOutcome | ClaimedIssuance> {
    const ended = await this.#leave(row)
    if (ended) return ended
    const moved = await this.#moveTo(row, next === 'signer' ? row.backend : next.name)
    if (!moved) return 'pending'
    return next === 'signer' ? this.#bySigner(moved) : this.#step(moved, next)
  }

  /** @returns undefined when nothing keeps the issuance from another backend */
  async #leave(row: ClaimedIssuance): Promise<CsrOutcome | undefined> {
    const { backends, events } = this.#options
    const save = (state: BackendState) =>
      this.#save({ ...row, state, isRepeated: false }, { isRunning: true, dueInSeconds: this.#leaseSeconds })
    try {
      const left = await leaveBackend(backends.get(row.backend), row, save)
      if (left.status === 'refused') return await this.#refused(row, left)
      return left.status === 'left' ? undefined : 'pending'
    } catch (error) {
      if (this.#isCutOff || !(error instanceof CaError)) throw error
      events.notWithdrawn(error, factsOf(row))
      return undefined
    }
  }

  /** @returns undefined when another instance holds the row */
  async #moveTo(row: ClaimedIssuance, backend: string): Promise<ClaimedIssuance | undefined> {
    const moved = { ...row, backend, state: undefined, mayHaveIssued: false, isRepeated: false, failures: 0 }
    const isSaved = await this.#save(moved, { isRunning: true, dueInSeconds: this.#leaseSeconds })
    return isSaved ? moved : undefined
  }

  async #step(row: ClaimedIssuance, backend: GuardedCsrBackend): Promise<CsrOutcome | ClaimedIssuance> {
    // A step that failed while a certificate may exist has left no answer.
    const isRepeated = row.isRepeated || (row.mayHaveIssued && (row.state === undefined || row.failures > 0))
    // The claim, or the record of the last step, has begun the lease a moment ago.
    const leaseUntil = performance.now() + (this.#leaseSeconds - LEASE_RESERVE_SECONDS) * 1000
    let answer: IssuanceStep
    try {
      answer = await backend.advance(requestOf(row), row.state as BackendState | undefined, {
        isRepeated,
        isAbandoned: row.abandonedSeconds !== undefined,
      })
    } catch (cause) {
      if (this.#isCutOff) return 'pending'
      // Another issuance was let through first; the choice is made again.
      if (cause instanceof LeftAlone) return row
      return this.#failed(row, asCaError(cause))
    }
    if (answer.status === 'pending') return this.#pending(row, answer)
    if (answer.status === 'refused') return this.#refused(row, answer)
    return this.#options.received.take(row, answer, leaseUntil)
  }

  async #pending(
    row: ClaimedIssuance,
    { state, retryAfterMs, mayHaveIssued }: IssuanceStep & { status: 'pending' },
  ): Promise<CsrOutcome | ClaimedIssuance> {
    const next = { ...row, state, mayHaveIssued, isRepeated: false, failures: 0 }
    const isAtOnce = retryAfterMs <= 0 && !this.#isClosed
    const dueInSeconds = isAtOnce ? this.#leaseSeconds : this.#inTime(row, Math.max(0, retryAfterMs / 1000))
    const isSaved = await this.#save(next, { isRunning: isAtOnce, dueInSeconds })
    return isAtOnce && isSaved ? next : 'pending'
  }

  async #refused(row: ClaimedIssuance, { problem, reason }: IssuanceStep & { status: 'refused' }): Promise<CsrOutcome> {
    const { store, instanceId, events } = this.#options
    events.refused(reason, factsOf(row))
    await store.fail(row.certificateId, instanceId, problem)
    return 'failed'
  }

  /** By the table of `CsrBackend`. */
  async #failed(row: ClaimedIssuance, error: CaError): Promise<CsrOutcome | ClaimedIssuance> {
    const { store, instanceId, events } = this.#options
    events.stepFailed(error, factsOf(row))
    const { retryable } = error
    // What an earlier step has left open, a later error does not settle.
    const mayHaveIssued = error.mayHaveIssued || row.mayHaveIssued
    const isAbandoned = row.abandonedSeconds !== undefined
    if (!retryable || (isAbandoned && !mayHaveIssued)) {
      if (mayHaveIssued)
        events.alarm('an order failed, and the CA may have issued its certificate; look there', error, factsOf(row))
      await store.fail(row.certificateId, instanceId, REFUSED)
      return 'failed'
    }
    const next = mayHaveIssued ? undefined : this.#nextOf(row)
    if (next !== undefined) return this.#failOver(row, next)
    const failures = row.failures + 1
    await this.#save(
      { ...row, mayHaveIssued, failures },
      { isRunning: false, dueInSeconds: this.#inTime(row, restSeconds(failures, error.retryAfterMs)) },
    )
    return 'pending'
  }

  /** Goes on with the next one at once: the first may be asked again only when this one has failed as well. */
  async #failOver(row: ClaimedIssuance, next: string): Promise<CsrOutcome | ClaimedIssuance> {
    const { backends, events } = this.#options
    events.failedOver(row.backend, next, factsOf(row))
    return this.#goTo(row, backends.get(next) ?? 'signer')
  }

  async #bySigner(row: ClaimedIssuance): Promise<CsrOutcome | ClaimedIssuance> {
    try {
      const turn = await this.#options.signer.issue(row)
      return turn === 'unsigned' ? await this.#takeBack(row) : turn
    } catch (error) {
      this.#options.events.interrupted(error, factsOf(row))
      // No backend was asked, so there is nothing to repeat.
      return this.#rest(row, LONG_REST_SECONDS)
    }
  }

  /** The signer has not signed: the next backend goes on, else the one before it after a rest. */
  async #takeBack(row: ClaimedIssuance): Promise<CsrOutcome | ClaimedIssuance> {
    const { store, instanceId, events, candidatesOf } = this.#options
    const signer = candidatesOf(row.profile).find(isSigner) ?? ''
    const next = this.#nextOf({ profile: row.profile, backend: signer })
    const failures = next === undefined ? row.failures + 1 : 0
    const dueInSeconds = next === undefined ? this.#inTime(row, restSeconds(failures, undefined)) : 0
    const isTaken = await store.takeFromSigner({
      ...row,
      backend: next ?? row.backend,
      instanceId,
      failures,
      dueInSeconds,
    })
    if (!isTaken || next === undefined) return 'pending'
    events.failedOver(signer, next, factsOf(row))
    return (await store.claim(row.certificateId, this.#holder)) ?? 'pending'
  }

  /** The next backend of the profile that is there. */
  #nextOf({ profile, backend }: Pick<ClaimedIssuance, 'profile' | 'backend'>): string | undefined {
    const { candidatesOf, backends, signer } = this.#options
    const candidates = candidatesOf(profile)
    return candidates
      .slice(candidates.indexOf(backend) + 1)
      .find((name) => (isSigner(name) ? signer.isUsable() : backends.get(name)?.newRetryAfterMs() === 0))
  }

  /** An order ends in its time, however long a backend is away or wants to be left alone. After it there is no hurry. */
  #inTime({ ageSeconds, abandonedSeconds }: ClaimedIssuance, seconds: number): number {
    if (abandonedSeconds !== undefined) return Math.max(seconds, abandonedRestSeconds(abandonedSeconds))
    return Math.min(seconds, Math.max(0, this.#options.timeoutSeconds - ageSeconds) + 1)
  }

  #save(row: ClaimedIssuance, { isRunning, dueInSeconds }: Pick<Progress, 'isRunning' | 'dueInSeconds'>) {
    const { certificateId, backend, state, mayHaveIssued, failures } = row
    const progress = { certificateId, backend, state, mayHaveIssued, failures, isRunning, dueInSeconds }
    return this.#options.store.save(progress, this.#options.instanceId)
  }
}

/** What a fault of our own has left undone is unknown. */
function asCaError(cause: unknown): CaError {
  if (cause instanceof CaError) return cause
  return new CaError('the backend failed', { retryable: true, mayHaveIssued: true, cause })
}
