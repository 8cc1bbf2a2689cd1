/** SQL of checks of the audit log's chain (table audit_verifications). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AUDIT_VERIFICATION_STATUSES } from '../../domain/states.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { auditVerification } from '../../store/status-sql.ts'

const Verdict = z.object({
  entries: z.int(),
  /** `renderHead` writes it. */
  head: z.string(),
  cut_sequence: z.int(),
  faults: z.array(z.string()),
  written_back: z.object({ entries: z.int(), spans: z.array(z.string()) }).optional(),
})
export type StoredVerdict = z.infer<typeof Verdict>

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
export function insertVerification(db: CommonQueryMethods, id: string): Promise<AuditVerification | null> {
  return db.maybeOne(rowsOf(Verification)`
    INSERT INTO audit_verifications (id) VALUES (${id}) ON CONFLICT DO NOTHING RETURNING ${columns}`)
}

/** Newest first. */
export function listVerifications(db: CommonQueryMethods, limit: number): Promise<readonly AuditVerification[]> {
  return db.any(rowsOf(Verification)`SELECT ${columns} FROM audit_verifications ORDER BY id DESC LIMIT ${limit}`)
}

export function findVerification(db: CommonQueryMethods, id: string): Promise<AuditVerification | null> {
  return db.maybeOne(rowsOf(Verification)`SELECT ${columns} FROM audit_verifications WHERE id = ${id}`)
}

/** Entries. */
interface Progress {
  checked: number
  total: number
}

export async function noteProgress(db: CommonQueryMethods, id: string, { checked, total }: Progress): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications SET checked = ${checked}, total = ${total}, progressed_at = clock_timestamp()
     WHERE id = ${id} AND status ${isRunning}`)
}

export async function finishVerification(
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

export async function failVerification(db: CommonQueryMethods, id: string, failure: string): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications SET status = ${failed}, failure = ${failure}, finished_at = clock_timestamp()
     WHERE id = ${id} AND status ${isRunning}`)
}

/** Fails checks without progress for so long. */
export async function failAbandoned(db: CommonQueryMethods, seconds: number, failure: string): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE audit_verifications SET status = ${failed}, failure = ${failure}, finished_at = clock_timestamp()
     WHERE status ${isRunning} AND progressed_at < now() - make_interval(secs => ${seconds})`)
}

/** Deletes all but the newest. */
export async function keepNewestVerifications(db: CommonQueryMethods, kept: number): Promise<void> {
  await db.query(rowsOf(None)`
    DELETE FROM audit_verifications
     WHERE id < (SELECT id FROM audit_verifications ORDER BY id DESC OFFSET ${kept - 1} LIMIT 1)`)
}
