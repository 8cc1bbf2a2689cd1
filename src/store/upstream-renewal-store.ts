/** SQL of the renewal windows that the CA behind this service suggests (RFC 9773). */

import type { RenewalAdvice } from '../domain/renewal-window.ts'
import type { Database, Statement } from './database.ts'

/** A certificate whose CA is to be asked. */
export interface DueRenewal {
  certificateId: string
  backend: string
  der: Buffer
}

export interface UpstreamRenewalStore {
  /**
   * Takes due ones of a backend, which are due again after `leaseSeconds`, and drops those that nobody
   * renews any more.
   */
  claimDue(backend: string, limit: number, leaseSeconds: number): Promise<DueRenewal[]>
  /** @param advice undefined when the CA suggests nothing */
  save(certificateId: string, advice: RenewalAdvice | undefined, dueInSeconds: number): Promise<void>
  /** Never asks again. */
  drop(certificateId: string): Promise<void>
}

const CLAIM_DUE: Statement = {
  name: 'upstream-renewal-claim-due',
  // upstream_renewals_backend_due, certificates_pkey
  text: `
    WITH due AS (
      SELECT certificate_id FROM upstream_renewals WHERE backend = $3 AND due_at <= now()
       ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
    ), live AS (
      SELECT c.id, c.der FROM due JOIN certificates c ON c.id = due.certificate_id
       WHERE c.not_after > now() AND c.revoked_at IS NULL
    ), dropped AS (
      DELETE FROM upstream_renewals u USING due
       WHERE u.certificate_id = due.certificate_id AND NOT EXISTS (SELECT FROM live WHERE live.id = due.certificate_id)
    )
    UPDATE upstream_renewals u SET due_at = now() + make_interval(secs => $2)
      FROM live WHERE u.certificate_id = live.id
    RETURNING u.certificate_id, u.backend, live.der`,
}

const SAVE: Statement = {
  name: 'upstream-renewal-save',
  text: `
    UPDATE upstream_renewals
       SET window_start = $2, window_end = $3, explanation_url = $4, due_at = now() + make_interval(secs => $5)
     WHERE certificate_id = $1`,
}

const DROP: Statement = {
  name: 'upstream-renewal-drop',
  text: 'DELETE FROM upstream_renewals WHERE certificate_id = $1',
}

export function createUpstreamRenewalStore(db: Pick<Database, 'query'>): UpstreamRenewalStore {
  return {
    async claimDue(name, limit, leaseSeconds) {
      type Row = { certificate_id: string; backend: string; der: Buffer }
      const rows = await db.query<Row>(CLAIM_DUE, [limit, leaseSeconds, name])
      return rows.map(({ certificate_id, backend, der }) => ({ certificateId: certificate_id, backend, der }))
    },
    async save(certificateId, advice, dueInSeconds) {
      const { start, end } = advice?.window ?? {}
      await db.query(SAVE, [certificateId, start ?? null, end ?? null, advice?.explanationUrl ?? null, dueInSeconds])
    },
    async drop(certificateId) {
      await db.query(DROP, [certificateId])
    },
  }
}
