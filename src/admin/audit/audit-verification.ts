/** Checks the chain of the audit log: on one snapshot, and as a job that any instance shows (table audit_verifications). */

import { setTimeout as sleep } from 'node:timers/promises'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import {
  AuditCheck,
  type AuditVerdict,
  isSameMac,
  type NotedHead,
  renderHead,
  verdictSeal,
} from '../../domain/audit-chain.ts'
import { AUDIT_VERIFICATION, AUDIT_VERIFICATION_STATUSES } from '../../domain/states.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { auditVerification } from '../../store/status-sql.ts'
import { beginSnapshot, readAuditChain, readAuditCheckpoint } from './audit-store.ts'

/** About 20 ms of the admin thread. */
const PAGE = 500
/** Half of the thread stays free, whatever a page takes. */
const MOST_REST_MS = 500
const KEPT = 20
const REPORT_MS = 1_000
/** Far more than it takes to tell the progress. */
const ABANDONED_SECONDS = 30
const ABANDONED = 'the process that checked has ended'
const FORGED = 'its stored result was changed'

/** Entries. */
interface Progress {
  checked: number
  total: number
}

/** @param onProgress after each page */
export function verifyAuditLog(
  db: DatabasePool,
  key: Buffer,
  noted: readonly NotedHead[],
  onProgress?: (progress: Progress) => Promise<void>,
): Promise<AuditVerdict> {
  return db.transaction(async (tx) => {
    await beginSnapshot(tx)
    const { head, cut } = await readAuditCheckpoint(tx)
    const check = new AuditCheck({ key, head, cut, noted })
    let [after, checked] = [cut.sequence, 0]
    for (;;) {
      const entries = await readAuditChain(tx, { after, limit: PAGE })
      for (const entry of entries) check.add(entry)
      checked += entries.length
      await onProgress?.({ checked, total: Math.max(checked, head.sequence - cut.sequence) })
      if (entries.length < PAGE) return check.verdict()
      after = entries.at(-1)?.sequence ?? after
    }
  })
}

export interface AuditVerificationEvents {
  failed: (error: unknown) => void
}

interface AuditVerificationsOptions {
  db: DatabasePool
  /** @throws Error where there is none */
  key(): Buffer
  /** Whether others use this thread, which then rests as long as it works. */
  rests: boolean
  events: AuditVerificationEvents
}

export class AuditVerifications {
  readonly #options: AuditVerificationsOptions
  #isStopping = false
  #run: Promise<void> = Promise.resolve()

  constructor(options: AuditVerificationsOptions) {
    this.#options = options
  }

  /**
   * @param noted heads written down elsewhere
   * @throws AdminError conflict while one runs, here or at another instance
   */
  async begin(noted: readonly NotedHead[]): Promise<AuditVerification> {
    const { db, key } = this.#options
    const auditKey = key()
    await failAbandoned(db, ABANDONED_SECONDS, ABANDONED)
    const begun = await insertVerification(db, uuidv7(Date.now()))
    if (!begun)
      throw new AdminError('conflict', 'the audit log is being checked already; wait for the end of that check')
    await keepNewestVerifications(db, KEPT)
    this.#run = this.#check(begun.id, auditKey, noted)
    return begun
  }

  /** @throws AdminError not_found */
  async find(id: string): Promise<AuditVerification> {
    const { db } = this.#options
    await failAbandoned(db, ABANDONED_SECONDS, ABANDONED)
    return this.#trusted(requireFound(await findVerification(db, id), 'check of the audit log'))
  }

  /** The newest first. */
  async list(limit: number): Promise<readonly AuditVerification[]> {
    const { db } = this.#options
    await failAbandoned(db, ABANDONED_SECONDS, ABANDONED)
    return (await listVerifications(db, limit)).map((found) => this.#trusted(found))
  }

  /** The database's owner can change the results of checks, as he can change the log. */
  #trusted(found: AuditVerification): AuditVerification {
    const { id, status, verdict, seal, finished_at: finishedAt } = found
    if (status !== 'done') return found
    if (verdict && seal && finishedAt && isSameMac(seal, verdictSeal(this.#options.key(), id, finishedAt, verdict)))
      return found
    return { ...found, status: AUDIT_VERIFICATION.running.fail, verdict: null, failure: FORGED }
  }

  /** Ends after the page in hand. A check that has not reached the end has failed. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#run
  }

  async #check(id: string, key: Buffer, noted: readonly NotedHead[]): Promise<void> {
    const { db, events } = this.#options
    let progress: Progress = { checked: 0, total: 0 }
    // slonik lets nothing inside a transaction use another connection.
    const reporting = setInterval(() => noteProgress(db, id, progress).catch(events.failed), REPORT_MS)
    const paced = this.#pacer()
    try {
      const found = await verifyAuditLog(db, key, noted, (reached) => {
        progress = reached
        return paced()
      })
      const [verdict, finishedAt] = [storedVerdict(found), new Date()]
      const seal = verdictSeal(key, id, finishedAt, verdict)
      await finishVerification(db, id, { ...progress, verdict, seal, finishedAt })
    } catch (error) {
      events.failed(error)
      const failure = messageOf(error)
      await failVerification(db, id, failure).catch(events.failed)
    } finally {
      clearInterval(reporting)
    }
  }

  #pacer(): () => Promise<void> {
    let startedAt = performance.now()
    return async () => {
      if (this.#isStopping) throw new Error('the instance that checked was stopped')
      if (this.#options.rests) await sleep(Math.min(performance.now() - startedAt, MOST_REST_MS))
      startedAt = performance.now()
    }
  }
}

function storedVerdict({ entries, head, cutSequence, faults, writtenBack }: AuditVerdict): StoredVerdict {
  return {
    entries,
    head: renderHead(head),
    cut_sequence: cutSequence,
    faults: [...faults],
    // Absent where there is none: an instance of the release before, which does not know it, finds the seal right.
    ...(writtenBack && { written_back: { ...writtenBack, spans: [...writtenBack.spans] } }),
  }
}

const Verdict = z.object({
  entries: z.int(),
  /** `renderHead` writes it. */
  head: z.string(),
  cut_sequence: z.int(),
  faults: z.array(z.string()),
  written_back: z.object({ entries: z.int(), spans: z.array(z.string()) }).optional(),
})
type StoredVerdict = z.infer<typeof Verdict>

const Verification = z.object({
  id: z.string(),
  status: z.enum(AUDIT_VERIFICATION_STATUSES),
  /** Entries. */
  checked: z.coerce.number(),
  total: z.coerce.number(),
  verdict: Verdict.nullable(),
  seal: z.instanceof(Buffer).nullable(),
  failure: z.string().nullable(),
  created_at: z.date(),
  finished_at: z.date().nullable(),
})
export type AuditVerification = z.infer<typeof Verification>

const None = z.object({})
const columns = sql.fragment`id, status, checked, total, verdict, seal, failure, created_at, finished_at`
const isRunning = constantSql(auditVerification.allows('finish'))
const failed = constantSql(auditVerification.after('fail'))

/** @returns null while another one runs */
function insertVerification(db: CommonQueryMethods, id: string): Promise<AuditVerification | null> {
  return db.maybeOne(rowsOf(Verification)`
    INSERT INTO audit_verifications (id) VALUES (${id}) ON CONFLICT DO NOTHING RETURNING ${columns}`)
}

/** Newest first. */
function listVerifications(db: CommonQueryMethods, limit: number): Promise<readonly AuditVerification[]> {
  return db.any(rowsOf(Verification)`SELECT ${columns} FROM audit_verifications ORDER BY id DESC LIMIT ${limit}`)
}

function findVerification(db: CommonQueryMethods, id: string): Promise<AuditVerification | null> {
  return db.maybeOne(rowsOf(Verification)`SELECT ${columns} FROM audit_verifications WHERE id = ${id}`)
}

async function noteProgress(db: CommonQueryMethods, id: string, { checked, total }: Progress): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications SET checked = ${checked}, total = ${total}, progressed_at = clock_timestamp()
     WHERE id = ${id} AND status ${isRunning}`)
}

async function finishVerification(
  db: CommonQueryMethods,
  id: string,
  { checked, total, verdict, seal, finishedAt }: Progress & { verdict: StoredVerdict; seal: Buffer; finishedAt: Date },
): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications
       SET status = ${constantSql(auditVerification.after('finish'))}, checked = ${checked}, total = ${total},
           verdict = ${JSON.stringify(verdict)}::jsonb, seal = ${sql.binary(seal)},
           finished_at = ${finishedAt.toISOString()}
     WHERE id = ${id} AND status ${isRunning}`)
}

async function failVerification(db: CommonQueryMethods, id: string, failure: string): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications SET status = ${failed}, failure = ${failure}, finished_at = clock_timestamp()
     WHERE id = ${id} AND status ${isRunning}`)
}

/** Fails checks without progress for so long. */
async function failAbandoned(db: CommonQueryMethods, seconds: number, failure: string): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications SET status = ${failed}, failure = ${failure}, finished_at = clock_timestamp()
     WHERE status ${isRunning} AND progressed_at < now() - make_interval(secs => ${seconds})`)
}

/** Deletes all but the newest. */
async function keepNewestVerifications(db: CommonQueryMethods, kept: number): Promise<void> {
  await db.query(rowsOf(None)`
    DELETE FROM audit_verifications
     WHERE id < (SELECT id FROM audit_verifications ORDER BY id DESC OFFSET ${kept - 1} LIMIT 1)`)
}
