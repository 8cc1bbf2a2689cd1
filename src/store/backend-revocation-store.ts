/** SQL of revocations that a backend has yet to confirm; a confirmed one leaves the table. */

import { withoutNulls } from './batch-results.ts'
import type { Database, Statement } from './database.ts'

export interface BackendRevocation {
  certificateId: string
  backend: string
  /** DER */
  certificate: Buffer
  /** CRLReason (RFC 5280 §5.3.1). */
  reason: number
  /** Attempts so far, and what the last one met. */
  failures: number
  error: string | undefined
  dueAt: Date
  createdAt: Date
}

export interface BackendRevocationStore {
  /** Claims due revocations, the oldest first. */
  claim(claimed: Claim): Promise<BackendRevocation[]>
  /** One whose reason has changed meanwhile waits on. */
  confirm(certificateId: string, reason: number): Promise<void>
  postpone(certificateId: string, error: string, seconds: number): Promise<void>
  count(): Promise<{ backend: string; rows: number }[]>
}

interface Claim {
  backend: string
  /** Takes revocations of further backends, too, unless they are among these. */
  unlessOf: readonly string[] | undefined
  leaseSeconds: number
  limit: number
}

const COLUMNS = `r.certificate_id AS "certificateId", r.backend, r.der AS certificate, r.reason, r.failures, r.error,
           r.due_at AS "dueAt", r.created_at AS "createdAt"`

const CLAIM: Statement = {
  name: 'backend-revocation-claim',
  text: `
    WITH due AS (
      SELECT certificate_id FROM backend_revocations
       WHERE due_at <= now() AND (backend = $3 OR backend <> ALL ($4::text[]))
       ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE backend_revocations r SET due_at = now() + make_interval(secs => $1)
      FROM due WHERE r.certificate_id = due.certificate_id
    RETURNING ${COLUMNS}`,
}

const CONFIRM: Statement = {
  name: 'backend-revocation-confirm',
  text: 'DELETE FROM backend_revocations WHERE certificate_id = $1 AND reason = coalesce($2, reason) RETURNING backend',
}

const POSTPONE: Statement = {
  name: 'backend-revocation-postpone',
  text: `
    UPDATE backend_revocations SET failures = failures + 1, error = $2, due_at = now() + make_interval(secs => $3)
     WHERE certificate_id = $1`,
}

const COUNT: Statement = {
  name: 'backend-revocation-count',
  text: 'SELECT backend, count(*)::integer AS rows FROM backend_revocations GROUP BY backend',
}

const LIST: Statement = {
  name: 'backend-revocation-list',
  text: `SELECT ${COLUMNS} FROM backend_revocations r ORDER BY created_at, certificate_id LIMIT $1 OFFSET $2`,
}

export function createBackendRevocationStore(db: Database): BackendRevocationStore {
  return {
    async claim({ backend, unlessOf, leaseSeconds, limit }) {
      const values = [leaseSeconds, limit, backend, unlessOf ?? null]
      return (await db.query<BackendRevocation>(CLAIM, values)).map(withoutNulls)
    },
    async confirm(certificateId, reason) {
      await db.query(CONFIRM, [certificateId, reason])
    },
    async postpone(certificateId, error, seconds) {
      await db.query(POSTPONE, [certificateId, error, seconds])
    },
    count: () => db.query(COUNT, []),
  }
}

/** The oldest first. */
export async function listBackendRevocations(
  db: Pick<Database, 'query'>,
  limit: number,
  offset: number,
): Promise<BackendRevocation[]> {
  return (await db.query<BackendRevocation>(LIST, [limit, offset])).map(withoutNulls)
}

/** @returns the backend that is not asked any more; undefined when none was */
export async function giveUpBackendRevocation(
  db: Pick<Database, 'query'>,
  certificateId: string,
): Promise<string | undefined> {
  return (await db.query<{ backend: string }>(CONFIRM, [certificateId, null]))[0]?.backend
}
