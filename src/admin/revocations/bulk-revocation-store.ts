/**
 * SQL of bulk revocations (tables bulk_revocations, bulk_revocation_certificates). A job continues at its last id, on
 * another instance, too.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import { BULK_REVOCATION_STATUSES } from '../../domain/states.ts'
import { constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { bulkRevocation } from '../../store/status-sql.ts'
import { rowOf } from '../schemas.ts'
import { FIRST_ID, matching, RevocationFilter, type Window } from './revocation-filter.ts'

/** Follows a status: the job is under way. */
const isOpen = constantSql(bulkRevocation.allows('cancel'))

const Job = z.object({
  id: z.string(),
  filter: RevocationFilter,
  reason: z.int(),
  author: z.custom<Actor>(),
  status: z.enum(BULK_REVOCATION_STATUSES),
  after_id: z.string(),
  /** More matching certificates were not confirmed; null for any number. */
  at_most: z.int().nullable(),
  total_matched: z.int(),
  revoked: z.int(),
  failed: z.int(),
  /** Why the last attempt failed; it is repeated. */
  obstacle: z.string().nullable(),
  created_at: z.date(),
  finished_at: z.date().nullable(),
})
export type RevocationJob = z.infer<typeof Job>

const None = z.object({})
const Id = z.object({ id: z.string() })
const columns = sql.fragment`
  id, filter, reason, author, status, after_id, at_most, total_matched, revoked, failed, obstacle, created_at,
  finished_at`

/** @param createdAt what was issued later does not match; now where it is undefined */
export function insertJob(
  tx: CommonQueryMethods,
  job: Pick<RevocationJob, 'id' | 'filter' | 'reason' | 'author' | 'at_most'>,
  createdAt?: string,
): Promise<RevocationJob> {
  const { id, filter, reason, author, at_most } = job
  return tx.one(rowsOf(Job)`
    INSERT INTO bulk_revocations (id, filter, reason, author, at_most, created_at)
    VALUES (${id}, ${JSON.stringify(filter)}::jsonb, ${reason}, ${JSON.stringify(author)}::jsonb, ${at_most},
            coalesce(${createdAt ?? null}::timestamptz, now()))
    RETURNING ${columns}`)
}

export function findJob(db: CommonQueryMethods, id: string): Promise<RevocationJob | null> {
  return db.maybeOne(rowsOf(Job)`SELECT ${columns} FROM bulk_revocations WHERE id = ${id}`)
}

/** Newest first. */
export async function listJobs(db: CommonQueryMethods, { limit, offset }: { limit: number; offset: number }) {
  return db.any(rowsOf(Job)`
    SELECT ${columns} FROM bulk_revocations ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`)
}

/** Jobs of instances that have ended: they have not moved for so long. */
export async function stalledJobs(db: CommonQueryMethods, seconds: number): Promise<string[]> {
  const rows = await db.any(rowsOf(Id)`
    SELECT id FROM bulk_revocations
     WHERE status ${isOpen} AND progressed_at < now() - make_interval(secs => ${seconds}) ORDER BY id`)
  return rows.map(({ id }) => id)
}

export function isAnyJobOpen(db: CommonQueryMethods): Promise<boolean> {
  return db.exists(rowsOf(None)`SELECT FROM bulk_revocations WHERE status ${isOpen}`)
}

/** Null when it has ended, or another instance is moving it. */
export function lockOpenJob(tx: CommonQueryMethods, id: string): Promise<RevocationJob | null> {
  return tx.maybeOne(rowsOf(Job)`
    SELECT ${columns} FROM bulk_revocations WHERE id = ${id} AND status ${isOpen} FOR UPDATE SKIP LOCKED`)
}

/**
 * Waits for the page in hand, and keeps the place up to which certificates are revoked.
 * @returns null when it is not there, or has ended
 */
export function cancelJob(tx: CommonQueryMethods, id: string): Promise<RevocationJob | null> {
  return tx.maybeOne(rowsOf(Job)`
    UPDATE bulk_revocations
       SET status = ${constantSql(bulkRevocation.after('cancel'))}, finished_at = clock_timestamp(),
           after_id = CASE WHEN status ${constantSql(bulkRevocation.is('matching'))} THEN ${FIRST_ID} ELSE after_id END
     WHERE id = ${id} AND status ${isOpen} RETURNING ${columns}`)
}

export async function moveJob(tx: CommonQueryMethods, job: RevocationJob): Promise<void> {
  const { id, status, after_id, total_matched, revoked, failed } = job
  await tx.query(rowsOf(None)`
    UPDATE bulk_revocations SET status = ${status}, after_id = ${after_id}, total_matched = ${total_matched},
           revoked = ${revoked}, failed = ${failed}, obstacle = NULL, progressed_at = clock_timestamp(),
           finished_at = CASE WHEN ${status}::text ${isOpen} THEN NULL ELSE clock_timestamp() END
     WHERE id = ${id} AND status ${isOpen}`)
}

/** An instance has tried and failed; it or another one tries again. */
export async function noteObstacle(db: CommonQueryMethods, id: string, obstacle: string): Promise<void> {
  await db.query(rowsOf(None)`UPDATE bulk_revocations SET obstacle = ${obstacle} WHERE id = ${id} AND status ${isOpen}`)
}

const Counted = z.object({ unrevoked: z.int(), revoked: z.int(), serial_numbers: z.array(z.string()) })

/** For the dry run: numbers of a window, and the first serial numbers of those that would be revoked. */
export function countMatching(
  db: CommonQueryMethods,
  filter: RevocationFilter,
  { window, until, samples }: { window: Window; until: Date; samples: number },
) {
  return db.one(rowsOf(Counted)`
    WITH found AS MATERIALIZED (SELECT c.id, c.serial_number, c.revoked_at FROM ${matching(filter, window, until)})
    SELECT (count(*) - count(revoked_at))::integer AS unrevoked, count(revoked_at)::integer AS revoked,
           ARRAY(SELECT encode(serial_number, 'hex') FROM found WHERE revoked_at IS NULL
                  ORDER BY id LIMIT ${samples}) AS serial_numbers
      FROM found`)
}

export const ALREADY_REVOKED = 'already revoked'
const Noted = z.object({ matched: z.int(), revoked: z.int() })

/** Notes the certificates of a window as the job's. @returns how many, and how many of them are revoked already */
export function noteMatching(tx: CommonQueryMethods, job: RevocationJob, window: Window) {
  return tx.one(rowsOf(Noted)`
    WITH noted AS (
      INSERT INTO bulk_revocation_certificates (job_id, certificate_id, serial_number, outcome)
      SELECT ${job.id}::uuid, c.id, c.serial_number, CASE WHEN c.revoked_at IS NOT NULL THEN ${ALREADY_REVOKED} END
        FROM ${matching(job.filter, window, job.created_at)}
      ON CONFLICT DO NOTHING RETURNING outcome)
    SELECT count(*)::integer AS matched, count(outcome)::integer AS revoked FROM noted`)
}

const BY_KEY = ['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_sort']

/**
 * Pages are read by key: a plan made before the tables have statistics would read them whole for each page.
 * Their changes are counted apart, so that the CRL comes once (`count_revocations`).
 */
export async function beginPage(tx: CommonQueryMethods): Promise<void> {
  await tx.query(rowsOf(None)`
    SELECT set_config(name, 'off', true) FROM unnest(${sql.array(BY_KEY, 'text')}) AS name
    UNION ALL SELECT set_config('chancery.bulk_revocation', 'on', true)`)
}

const Target = z.object({ id: z.string(), is_stored: z.boolean(), der: z.instanceof(Buffer).nullable() })

/** The next certificates whose turn it is. @param withDer for the keys to block */
export async function nextTargets(
  tx: CommonQueryMethods,
  { id, after_id }: RevocationJob,
  { limit, withDer }: { limit: number; withDer: boolean },
) {
  return tx.any(rowsOf(Target)`
    SELECT b.certificate_id AS id, c.id IS NOT NULL AS is_stored, CASE WHEN ${withDer} THEN c.der END AS der
      FROM bulk_revocation_certificates b LEFT JOIN certificates c ON c.id = b.certificate_id
     WHERE b.job_id = ${id} AND b.certificate_id > ${after_id} AND b.outcome IS NULL
     ORDER BY b.certificate_id LIMIT ${limit}`)
}

/**
 * Records why certificates were not revoked. The job's place tells that all others were, which saves half of the rows.
 */
export async function noteFailures(
  tx: CommonQueryMethods,
  jobId: string,
  failures: readonly { id: string; why: string }[],
): Promise<void> {
  if (failures.length === 0) return
  const [ids, reasons] = [failures.map(({ id }) => id), failures.map(({ why }) => why)]
  await tx.query(rowsOf(None)`
    UPDATE bulk_revocation_certificates b SET outcome = f.why
      FROM unnest(${sql.array(ids, 'uuid')}, ${sql.array(reasons, 'text')}) AS f (id, why)
     WHERE b.job_id = ${jobId} AND b.certificate_id = f.id`)
}

/** Valid now: a certificate may have been revoked by somebody else, or expired since. */
const isLeft = sql.fragment`c.revoked_at IS NULL AND c.not_after > now()`

/** How many certificates a job that has ended has left valid; null before. */
export function countLeft(db: CommonQueryMethods, { id, finished_at }: RevocationJob): Promise<number | null> {
  if (finished_at === null) return Promise.resolve(null)
  return db.oneFirst(rowsOf(Left)`
    SELECT count(*)::integer AS certificates
      FROM bulk_revocation_certificates b JOIN certificates c ON c.id = b.certificate_id
     WHERE b.job_id = ${id} AND ${isLeft}`)
}
const Left = z.object({ certificates: z.int() })

const ONLY = { all: sql.fragment`true`, failed: sql.fragment`b.outcome IS NOT NULL`, left: isLeft } as const

export const BulkRevocationCertificate = z
  .strictObject({
    certificate_id: z.uuid(),
    serial_number: z.string(),
    names: z.array(z.string()).meta({ description: 'Empty when the certificate is no longer stored.' }),
    account_id: z.uuid().nullable(),
    outcome: z.string().nullable().meta({ description: 'Null until its turn; then revoked, or why not.' }),
  })
  .meta({ id: 'BulkRevocationCertificate' })

const Result = rowOf(BulkRevocationCertificate)

/** In the order in which they are revoked. */
export async function listResults(
  db: CommonQueryMethods,
  jobId: string,
  {
    afterId = FIRST_ID,
    limit,
    only,
  }: { afterId?: string | undefined; limit: number; only?: 'failed' | 'left' | undefined },
) {
  return db.any(rowsOf(Result)`
    SELECT b.certificate_id, encode(b.serial_number, 'hex') AS serial_number,
           coalesce(c.names, '{}') AS names, c.account_id,
           CASE WHEN b.outcome IS NOT NULL THEN b.outcome
                WHEN j.status ${constantSql(bulkRevocation.is('refused'))} THEN 'not revoked: the job was refused'
                WHEN j.status ${constantSql(bulkRevocation.is('matching'))} THEN NULL
                WHEN b.certificate_id <= j.after_id THEN 'revoked'
                WHEN j.status ${constantSql(bulkRevocation.is('cancelled'))} THEN 'cancelled before its turn' END AS outcome
      FROM bulk_revocation_certificates b JOIN bulk_revocations j ON j.id = b.job_id
      LEFT JOIN certificates c ON c.id = b.certificate_id
     WHERE b.job_id = ${jobId} AND b.certificate_id > ${afterId}
       AND ${ONLY[only ?? 'all']}
     ORDER BY b.certificate_id LIMIT ${limit}`)
}
