/**
 * Bulk revocation: a job in the database, moved page by page. Each page is one transaction under
 * the job's row lock, so another instance continues a job, and no certificate is missed.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { withoutSession } from '../../domain/approval.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { BULK_REVOCATION, type BulkRevocationStatus, finalStatuses } from '../../domain/states.ts'
import type { NoteRevocations } from '../../services/reconcile/revocation-notes.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import type { AuditLog, Note } from '../audit/audit-log.ts'
import { dryRun, match, revokePage, wrongCount } from './bulk-revocation-steps.ts'
import {
  cancelJob,
  findJob,
  insertJob,
  lockOpenJob,
  moveJob,
  noteObstacle,
  type RevocationJob,
  stalledJobs,
} from './bulk-revocation-store.ts'
import type { RevocationFilter } from './revocation-filter.ts'

export interface BulkRevocationEvents {
  revoked(jobId: string, count: number, reason: number): void
  failed(jobId: string, error: unknown): void
  /** Whether there are jobs is not known: the database is away. */
  notLooked(error: unknown): void
}

interface BulkRevocationsOptions {
  db: DatabasePool
  audit: AuditLog
  events: BulkRevocationEvents
  noteRevocations: NoteRevocations
  /** More certificates need their number repeated. */
  confirmAbove: number
  /** More certificates need another person's approval. */
  approvalAbove: number | undefined
}

interface WantedRevocation {
  filter: RevocationFilter
  /** CRLReason. */
  reason: number
  confirmCount: number | undefined
  /** How many certificates another person has approved. */
  approved?: number | undefined
}

/** Half of a connection stays free, whatever a page takes. */
const MOST_REST_MS = 500
const MOST_LOGGED_SERIALS = 100
/** Their JSON has 43 KB, and a record may have 64 KiB. */
const MOST_RECORDED_SERIALS = 1_000
/** Another instance takes a job up after this time. */
const STALLED_SECONDS = 5
const LOOK_MS = 2_000
const POLL_MS = 100

export class BulkRevocations {
  readonly #options: BulkRevocationsOptions
  #queue: Promise<void> = Promise.resolve()
  readonly #queued = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  #isStopping = false

  constructor(options: BulkRevocationsOptions) {
    this.#options = options
  }

  /** Takes up what an instance has left, now and from time to time. */
  start(): void {
    const look = () => {
      stalledJobs(this.#options.db, STALLED_SECONDS)
        .then((ids) => {
          for (const id of ids) this.#enqueue(id)
        })
        .catch((error) => this.#options.events.notLooked(error))
    }
    look()
    this.#timer = setInterval(look, LOOK_MS).unref()
  }

  /** Ends after the page in hand; the job continues elsewhere, or at the next start. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearInterval(this.#timer)
    await this.#queue
  }

  /** @throws AdminError invalid_request with the number that would have to be confirmed */
  async begin(author: Actor, wanted: WantedRevocation, audit = this.#options.audit): Promise<RevocationJob> {
    const { filter, reason, confirmCount, approved } = wanted
    if (approved !== undefined) await this.#requireApproved(filter, approved)
    else if (Number.isFinite(this.#options.confirmAbove)) await this.#requireConfirmed(filter, confirmCount)
    const at_most = approved ?? mostOf(this.#options, confirmCount)
    const job = await audit.transaction(author, (tx, note) => recordJob(tx, note, { author, filter, reason, at_most }))
    this.#enqueue(job.id)
    return job
  }

  /** Begins a job that was recorded, once its transaction is committed. */
  take(id: string): void {
    this.#enqueue(id)
  }

  /**
   * Stops a job after the page in hand; what is revoked stays so.
   * @throws AdminError conflict when it has ended
   */
  cancel(author: Actor, id: string): Promise<RevocationJob> {
    return this.#options.audit.transaction(author, async (tx, note) => {
      const job = await cancelJob(tx, id)
      if (!job) {
        const { status } = await requireJob(tx, id)
        throw new AdminError('conflict', `the bulk revocation has ended already: it is ${status}`)
      }
      noteEnd(note, job)
      return job
    })
  }

  /** @returns the job when it has ended, or as it is after so long */
  async wait(id: string, waitMs: number): Promise<RevocationJob> {
    const deadline = performance.now() + waitMs
    for (;;) {
      const job = await requireJob(this.#options.db, id)
      if (hasEnded(job) || this.#isStopping || performance.now() > deadline) return job
      await sleep(POLL_MS)
    }
  }

  async #requireConfirmed(filter: RevocationFilter, confirmCount: number | undefined): Promise<void> {
    const { wouldRevoke } = await dryRun(this.#options.db, filter)
    if (wouldRevoke <= this.#options.confirmAbove || wouldRevoke === confirmCount) return
    throw wrongCount(`${wouldRevoke}, the number of certificates that would be revoked now`)
  }

  async #requireApproved(filter: RevocationFilter, approved: number): Promise<void> {
    const { wouldRevoke } = await dryRun(this.#options.db, filter)
    if (wouldRevoke <= approved) return
    throw new AdminError('conflict', `${wouldRevoke} certificates match now; the request is for ${approved}`)
  }

  /** One job after the other, so that several cost ACME no more than one. */
  #enqueue(id: string): void {
    if (this.#queued.has(id) || this.#isStopping) return
    this.#queued.add(id)
    this.#queue = this.#queue
      .then(() => this.#run(id))
      .catch((error) => this.#tell(id, error))
      .catch((error) => this.#options.events.failed(id, error))
      .finally(() => this.#queued.delete(id))
  }

  /** Tells the log and the job's page. */
  async #tell(id: string, error: unknown): Promise<void> {
    this.#options.events.failed(id, error)
    await noteObstacle(this.#options.db, id, messageOf(error))
  }

  async #run(id: string): Promise<void> {
    while (!this.#isStopping) {
      const startedAt = performance.now()
      if (!(await this.#step(id))) return
      await sleep(Math.min(performance.now() - startedAt, MOST_REST_MS))
    }
  }

  /** @returns false when the job has ended, or another instance moves it */
  async #step(id: string): Promise<boolean> {
    const { db, audit, events, noteRevocations } = this.#options
    const waiting = await findJob(db, id)
    if (!waiting) return false
    const moved = await audit.continueWithoutAuthor(waiting.author, async (tx, note) => {
      const job = await lockOpenJob(tx, id)
      if (!job) return undefined
      const { next, revoked } =
        job.status === 'matching' ? { next: await match(tx, job), revoked: [] } : await revokePage(tx, job)
      await moveJob(tx, next)
      if (hasEnded(next)) noteEnd(note, next)
      return { job, next, revoked }
    })
    if (!moved) return false
    const { revoked } = moved
    if (revoked.length > 0) events.revoked(id, revoked.length, moved.job.reason)
    await noteRevocations(revoked)
    return !hasEnded(moved.next)
  }
}

/** Records a job with its audit entry. */
export async function recordJob(
  tx: CommonQueryMethods,
  note: Note,
  { author, filter, reason, at_most }: Pick<RevocationJob, 'author' | 'filter' | 'reason' | 'at_most'>,
): Promise<RevocationJob> {
  const id = uuidv7(Date.now())
  const job = await insertJob(tx, { id, filter, reason, author: withoutSession(author), at_most })
  const facts = { filter: shownFilter(filter), reason: revocationReasonName(reason) }
  const recorded = {
    filter: { ...filter, ...serialsOf(filter, MOST_RECORDED_SERIALS) },
    reason,
    author: job.author,
    at_most,
  }
  note('certificate.bulk_revoke', { job_id: id, phase: 'begun', ...facts }, undefined, { job: recorded })
  return job
}

export async function requireJob(db: CommonQueryMethods, id: string): Promise<RevocationJob> {
  return requireFound(await findJob(db, id), 'bulk revocation')
}

const FINAL: readonly BulkRevocationStatus[] = finalStatuses(BULK_REVOCATION)
const hasEnded = ({ status }: RevocationJob) => FINAL.includes(status)

/** How many certificates a request allows: what it has confirmed, or what needs neither confirmation nor approval. */
function mostOf(
  { confirmAbove, approvalAbove = Number.POSITIVE_INFINITY }: BulkRevocationsOptions,
  confirmCount: number | undefined,
): number | null {
  const confirmed = Number.isFinite(confirmAbove) ? Math.max(confirmAbove, confirmCount ?? 0) : confirmCount
  const most = Math.min(confirmed ?? Number.POSITIVE_INFINITY, approvalAbove)
  return Number.isFinite(most) ? most : null
}

/** The filter for audit entries. It is cut, because a page of the audit log has up to a thousand entries. */
function shownFilter(filter: RevocationFilter) {
  const { serial_numbers: serials } = filter
  const shown = serialsOf(filter, MOST_LOGGED_SERIALS)
  return { ...filter, ...shown, ...(serials && { serial_numbers_total: serials.length }) }
}

const serialsOf = ({ serial_numbers: serials }: RevocationFilter, most: number) =>
  serials && { serial_numbers: serials.slice(0, most) }

function noteEnd(note: Note, { id, status, filter, reason, revoked, failed, at_most }: RevocationJob): void {
  const facts = { job_id: id, filter: shownFilter(filter), reason: revocationReasonName(reason) }
  if (status === 'refused') note('certificate.bulk_revoke', { ...facts, phase: 'refused', at_most })
  else {
    const phase = status === 'cancelled' ? { phase: status } : {}
    note('certificate.bulk_revoke', { ...facts, ...phase, revoked, errors: failed })
  }
}
