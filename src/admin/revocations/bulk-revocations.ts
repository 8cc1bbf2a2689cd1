/**
 * Bulk revocation: a job in the database, moved page by page. Each page is one transaction under
 * the job's row lock, so a job goes on wherever its instance ended, and no certificate is missed.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { KEY_COMPROMISE, revocationReasonName } from '../../domain/revocation.ts'
import { BULK_REVOCATION, type BulkRevocationStatus, finalStatuses, statusAfter } from '../../domain/states.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { revokeCertificates } from '../../store/certificate-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import {
  ALREADY_REVOKED,
  beginPage,
  cancelJob,
  countMatching,
  FIRST_ID,
  findJob,
  insertJob,
  listJobs,
  listResults,
  lockOpenJob,
  moveJob,
  nextTargets,
  nextWindow,
  noteFailures,
  noteMatching,
  noteObstacle,
  type RevocationFilter,
  type RevocationJob,
  type RevocationResult,
  standingJobs,
} from './bulk-revocation-store.ts'

export interface BulkRevocationEvents {
  revoked(jobId: string, count: number, reason: number): void
  failed(jobId: string, error: unknown): void
}

export interface BulkRevocationsOptions {
  db: DatabasePool
  audit: AuditLog
  events: BulkRevocationEvents
  /** More certificates need their number repeated. */
  confirmAbove: number
}

export interface WantedRevocation {
  filter: RevocationFilter
  /** CRLReason. */
  reason: number
  confirmCount: number | undefined
}

export interface DryRun {
  /** Matching certificates that are not revoked. */
  wouldRevoke: number
  /** Matching certificates that are revoked already. */
  alreadyRevoked: number
  /** The first that would be revoked. */
  serialNumbers: string[]
}

/** About 50 ms; with the pause behind it, some thousand certificates a second. */
const PAGE = 500
/** Half of a connection stays free, whatever a page takes. */
const MOST_REST_MS = 500
const SAMPLES = 100
const MOST_ERRORS = 50
const MOST_LOGGED_SERIALS = 100
/** After this, another instance takes a job up. */
const STANDING_SECONDS = 5
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
      standingJobs(this.#options.db, STANDING_SECONDS)
        .then((ids) => {
          for (const id of ids) this.#enqueue(id)
        })
        .catch((error) => this.#options.events.failed('', error))
    }
    look()
    this.#timer = setInterval(look, LOOK_MS).unref()
  }

  /** Ends after the page in hand; the job goes on elsewhere, or at the next start. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearInterval(this.#timer)
    await this.#queue
  }

  async dryRun(filter: RevocationFilter): Promise<DryRun> {
    const until = new Date()
    const found: DryRun = { wouldRevoke: 0, alreadyRevoked: 0, serialNumbers: [] }
    let afterId = FIRST_ID
    for (;;) {
      const window = await nextWindow(this.#options.db, filter, afterId)
      const samples = SAMPLES - found.serialNumbers.length
      const counted = await countMatching(this.#options.db, filter, { window, until, samples })
      found.wouldRevoke += counted.unrevoked
      found.alreadyRevoked += counted.revoked
      found.serialNumbers.push(...counted.serial_numbers)
      if (window.endId === undefined) return found
      afterId = window.endId
    }
  }

  /** @throws AdminError invalid_request with the number that would have to be confirmed */
  async begin(author: Actor, { filter, reason, confirmCount }: WantedRevocation): Promise<RevocationJob> {
    if (Number.isFinite(this.#options.confirmAbove)) await this.#requireConfirmed(filter, confirmCount)
    const job = await this.#options.audit.transaction(author, async (tx, note) => {
      const begun = await insertJob(tx, {
        id: uuidv7(Date.now()),
        filter,
        reason,
        author: withoutSession(author),
        at_most: mostOf(this.#options.confirmAbove, confirmCount),
      })
      note('certificate.bulk_revoke', {
        job_id: begun.id,
        phase: 'begun',
        filter: shownFilter(filter),
        reason: revocationReasonName(reason),
      })
      return begun
    })
    this.#enqueue(job.id)
    return job
  }

  /**
   * Stops a job after the page in hand; what is revoked stays so.
   * @throws AdminError conflict when it has ended
   */
  cancel(author: Actor, id: string): Promise<RevocationJob> {
    return this.#options.audit.transaction(author, async (tx, note) => {
      const job = await cancelJob(tx, id)
      if (!job) {
        const ended = await findJob(tx, id)
        throw ended
          ? new AdminError('conflict', `the bulk revocation has ended already: it is ${ended.status}`)
          : notFound('bulk revocation')
      }
      noteEnd(note, job)
      return job
    })
  }

  /** @returns the job when it has ended, or as it stands after so long */
  async wait(id: string, waitMs: number): Promise<RevocationJob> {
    const deadline = performance.now() + waitMs
    for (;;) {
      const job = await this.find(id)
      if (hasEnded(job) || this.#isStopping || performance.now() > deadline) return job
      await sleep(POLL_MS)
    }
  }

  async find(id: string): Promise<RevocationJob> {
    return (await findJob(this.#options.db, id)) ?? Promise.reject(notFound('bulk revocation'))
  }

  list(limit: number, offset: number): Promise<readonly RevocationJob[]> {
    return listJobs(this.#options.db, limit, offset)
  }

  /** The first that were not revoked, at most 50. */
  async errorsOf({ id, failed }: RevocationJob): Promise<readonly RevocationResult[]> {
    return failed === 0 ? [] : listResults(this.#options.db, id, { limit: MOST_ERRORS, onlyFailed: true })
  }

  async results(id: string, afterId: string | undefined, limit: number): Promise<readonly RevocationResult[]> {
    await this.find(id)
    return listResults(this.#options.db, id, { ...(afterId !== undefined && { afterId }), limit })
  }

  async #requireConfirmed(filter: RevocationFilter, confirmCount: number | undefined): Promise<void> {
    const { wouldRevoke } = await this.dryRun(filter)
    if (wouldRevoke <= this.#options.confirmAbove || wouldRevoke === confirmCount) return
    const message = `must be ${wouldRevoke}, the number of certificates that would be revoked now`
    throw new AdminError('invalid_request', `the body is not right: 'confirm_count' ${message}`, {
      fields: [{ field: 'confirm_count', message }],
    })
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
    await noteObstacle(this.#options.db, id, error instanceof Error ? error.message : String(error))
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
    const { db, audit, events } = this.#options
    const waiting = await findJob(db, id)
    if (!waiting) return false
    const moved = await audit.onward(waiting.author, async (tx, note) => {
      const job = await lockOpenJob(tx, id)
      if (!job) return undefined
      const next = job.status === 'matching' ? await match(tx, job) : await revokePage(tx, job)
      await moveJob(tx, next)
      if (hasEnded(next)) noteEnd(note, next)
      return { job, next }
    })
    if (!moved) return false
    const revoked = moved.next.revoked - moved.job.revoked
    if (revoked > 0) events.revoked(id, revoked, moved.job.reason)
    return !hasEnded(moved.next)
  }
}

const FINAL: readonly BulkRevocationStatus[] = finalStatuses(BULK_REVOCATION)
const hasEnded = ({ status }: RevocationJob) => FINAL.includes(status)

/** How many certificates a request allows: what it has confirmed, or what needs no confirmation. */
function mostOf(confirmAbove: number, confirmCount: number | undefined): number | null {
  if (!Number.isFinite(confirmAbove)) return confirmCount ?? null
  return Math.max(confirmAbove, confirmCount ?? 0)
}

const LISTED = statusAfter(BULK_REVOCATION, 'listed')
const OVERRUN = statusAfter(BULK_REVOCATION, 'overrun')
const FINISHED = statusAfter(BULK_REVOCATION, 'finish')

/** The job outlives the session. */
const withoutSession = ({ sessionId: _, ...author }: Actor): Actor => author

async function match(tx: Transaction, job: RevocationJob): Promise<RevocationJob> {
  const window = await nextWindow(tx, job.filter, job.after_id)
  const noted = await noteMatching(tx, job, window)
  const [total_matched, failed] = [job.total_matched + noted.matched, job.failed + noted.revoked]
  // Between the count that was confirmed and this one, more may have been issued or recorded.
  if (job.at_most !== null && total_matched - failed > job.at_most)
    return { ...job, total_matched, failed, status: OVERRUN }
  if (window.endId !== undefined) return { ...job, total_matched, failed, after_id: window.endId }
  return { ...job, total_matched, failed, after_id: FIRST_ID, status: LISTED }
}

const UNREADABLE =
  'not revoked: the stored certificate cannot be read, so its key cannot be blocked; another reason revokes it'

/** A row that cannot be read must not hold up the others. */
function keyOf(der: Buffer): Buffer | 'unreadable' {
  try {
    return hashSpki(parseCertificate(der).tbs.spki)
  } catch {
    return 'unreadable'
  }
}

async function revokePage(tx: Transaction, job: RevocationJob): Promise<RevocationJob> {
  await beginPage(tx)
  const withDer = job.reason === KEY_COMPROMISE
  const targets = await nextTargets(tx, job, { limit: PAGE, withDer })
  const unreadable = new Set<string>()
  const certificates = targets.flatMap(({ id: certificateId, der }) => {
    const blockedKey = der?.length ? keyOf(der) : undefined
    if (blockedKey !== 'unreadable') return [{ certificateId, blockedKey }]
    unreadable.add(certificateId)
    return []
  })
  const revoked = await revokeCertificates(queriesOf(tx), certificates, job.reason)
  const isRevoked = new Set(revoked)
  const failures = targets.filter(({ id }) => !isRevoked.has(id))
  const whyOf = ({ id, is_stored }: (typeof targets)[number]) => {
    if (unreadable.has(id)) return UNREADABLE
    return is_stored ? ALREADY_REVOKED : 'no longer stored'
  }
  await noteFailures(
    tx,
    job.id,
    failures.map((target) => ({ id: target.id, why: whyOf(target) })),
  )
  return {
    ...job,
    after_id: targets.at(-1)?.id ?? job.after_id,
    revoked: job.revoked + revoked.length,
    failed: job.failed + failures.length,
    status: targets.length < PAGE ? FINISHED : job.status,
  }
}

/** The filter for audit entries. It is cut, because a page of the audit log has up to a thousand entries. */
function shownFilter({ serial_numbers: serials, ...others }: RevocationFilter) {
  const shown = serials && {
    serial_numbers: serials.slice(0, MOST_LOGGED_SERIALS),
    serial_numbers_total: serials.length,
  }
  return { ...others, ...shown }
}

function noteEnd(note: Note, { id, status, filter, reason, revoked, failed, at_most }: RevocationJob): void {
  const facts = { job_id: id, filter: shownFilter(filter), reason: revocationReasonName(reason) }
  if (status === 'refused') note('certificate.bulk_revoke', { ...facts, phase: 'refused', at_most })
  else {
    const phase = status === 'cancelled' ? { phase: status } : {}
    note('certificate.bulk_revoke', { ...facts, ...phase, revoked, errors: failed })
  }
}
