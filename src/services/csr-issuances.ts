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
import { isSigner, LONGEST_ABANDONED_SECONDS, restSeconds } from '../domain/csr-issuance.ts'
import { within } from '../shared/lib/time-limit.ts'
import { type ProblemDocument, problemDocument } from '../shared/protocol/problem.ts'
import type { ClaimedIssuance, CsrIssuanceStore, Progress } from '../store/csr-issuance-store.ts'
import { type BackendFacts, type CsrOutcome, factsOf } from './csr-outcome.ts'
import type { ReceivedCertificates } from './received-certificates.ts'
import { LAPSE_PROBLEMS } from './recovery.ts'

/** None may throw or wait. */
export interface CsrIssuanceEvents {
  /** A step has thrown; what follows is in the error. */
  stepFailed(error: CaError, facts: BackendFacts): void
  /** The CA has refused for good; `reason` is its own, for the log. */
  refused(reason: string, facts: BackendFacts): void
  /** Another backend is asked in its place. */
  failedOver(from: string, to: string, facts: BackendFacts): void
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
    issue(issuance: ClaimedIssuance): Promise<CsrOutcome>
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
const OVERDUE = problemDocument('serverInternal', 'the CA did not issue the certificate in time')
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
    if (choice === 'signer') return this.#bySigner(row)
    if ('restSeconds' in choice) return this.#rest(row, choice.restSeconds)
    const { backend } = choice
    const chosen = backend.name === row.backend ? row : await this.#moveTo(row, backend.name)
    return chosen ? this.#step(chosen, backend) : 'pending'
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
    events.alarm('a certificate that may exist at the CA has not been fetched; look there', undefined, factsOf(row))
    await store.fail(row.certificateId, instanceId, OVERDUE)
    return 'failed'
  }

  #choose(row: ClaimedIssuance): Choice {
    const { backends, candidatesOf, isStopped } = this.#options
    if (isStopped()) return { restSeconds: LONG_REST_SECONDS }
    const isBound = row.mayHaveIssued || row.isRepeated || row.abandonedSeconds !== undefined
    const candidates = isBound ? [] : candidatesOf(row.profile)
    // What was only opened may be left behind, but is gone on with where that is possible.
    const names = candidates.length === 0 || row.state !== undefined ? [row.backend, ...candidates] : candidates
    let restMs = LONG_REST_SECONDS * 1000
    for (const name of names) {
      if (isSigner(name)) {
        if (this.#options.signer.isUsable()) return 'signer'
        continue
      }
      const backend = backends.get(name)
      const waitMs = backend?.retryAfterMs() ?? restMs
      if (backend && waitMs === 0) return { backend }
      restMs = Math.min(restMs, waitMs)
    }
    return { restSeconds: restMs / 1000 }
  }

  async #rest(row: ClaimedIssuance, seconds: number): Promise<CsrOutcome> {
    await this.#save(row, { isRunning: row.isRepeated, dueInSeconds: seconds })
    return 'pending'
  }

  /** @returns undefined when another instance holds the row */
  async #moveTo(row: ClaimedIssuance, backend: string): Promise<ClaimedIssuance | undefined> {
    const moved = { ...row, backend, state: undefined, mayHaveIssued: false, isRepeated: false, failures: 0 }
    const isSaved = await this.#save(moved, { isRunning: true, dueInSeconds: this.#leaseSeconds })
    return isSaved ? moved : undefined
  }

  async #step(row: ClaimedIssuance, backend: GuardedCsrBackend): Promise<CsrOutcome | ClaimedIssuance> {
    const { isRepeated } = row
    // The claim, or the record of the last step, has begun the lease a moment ago.
    const leaseUntil = performance.now() + (this.#leaseSeconds - LEASE_RESERVE_SECONDS) * 1000
    let answer: IssuanceStep
    try {
      answer = await backend.advance({ ...row, validityDays: daysOf(row) }, row.state as BackendState | undefined, {
        isRepeated,
        isAbandoned: row.abandonedSeconds !== undefined,
      })
    } catch (cause) {
      if (this.#isCutOff) return 'pending'
      if (cause instanceof LeftAlone) return this.#rest(row, backend.retryAfterMs() / 1000)
      return this.#failed(row, asCaError(cause, row))
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
    // An order ends in its time, however long the backend wants to be left alone.
    const leftSeconds = Math.max(0, this.#options.timeoutSeconds - row.ageSeconds) + 1
    const restsSeconds = row.abandonedSeconds === undefined ? leftSeconds : Number.POSITIVE_INFINITY
    const dueInSeconds = isAtOnce ? this.#leaseSeconds : Math.min(Math.max(0, retryAfterMs / 1000), restsSeconds)
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
      { isRunning: false, dueInSeconds: restSeconds(failures, error.retryAfterMs) },
    )
    return 'pending'
  }

  /** Goes on with the next one at once: the first may be asked again only when this one has failed as well. */
  async #failOver(row: ClaimedIssuance, next: string): Promise<CsrOutcome | ClaimedIssuance> {
    const { backends, events } = this.#options
    events.failedOver(row.backend, next, factsOf(row))
    const moved = await this.#moveTo(row, isSigner(next) ? row.backend : next)
    if (!moved) return 'pending'
    const backend = backends.get(next)
    return backend ? this.#step(moved, backend) : this.#bySigner(moved)
  }

  async #bySigner(row: ClaimedIssuance): Promise<CsrOutcome> {
    try {
      return await this.#options.signer.issue(row)
    } catch (error) {
      this.#options.events.interrupted(error, factsOf(row))
      // No backend was asked, so there is nothing to repeat.
      return this.#rest(row, LONG_REST_SECONDS)
    }
  }

  /** The next backend of the profile that is there. */
  #nextOf({ profile, backend }: ClaimedIssuance): string | undefined {
    const { candidatesOf, backends, signer } = this.#options
    const candidates = candidatesOf(profile)
    return candidates
      .slice(candidates.indexOf(backend) + 1)
      .find((name) => (isSigner(name) ? signer.isUsable() : backends.get(name)?.retryAfterMs() === 0))
  }

  #save(row: ClaimedIssuance, { isRunning, dueInSeconds }: Pick<Progress, 'isRunning' | 'dueInSeconds'>) {
    const { certificateId, backend, state, mayHaveIssued, failures } = row
    const progress = { certificateId, backend, state, mayHaveIssued, failures, isRunning, dueInSeconds }
    return this.#options.store.save(progress, this.#options.instanceId)
  }
}

const DAY_MS = 86_400_000

/** Rounded, because notAfter is included (RFC 5280 §4.1.2.5). */
function daysOf({ notBefore, notAfter }: Pick<ClaimedIssuance, 'notBefore' | 'notAfter'>): number {
  return Math.max(1, Math.round((notAfter.getTime() - notBefore.getTime()) / DAY_MS))
}

function asCaError(cause: unknown, { mayHaveIssued }: ClaimedIssuance): CaError {
  if (cause instanceof CaError) return cause
  return new CaError('the backend failed', { retryable: true, mayHaveIssued, cause })
}
