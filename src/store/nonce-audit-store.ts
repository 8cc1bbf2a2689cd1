/** SQL of the record of used nonces (`nonce.audit_consumed`). */

import type { Database, Statement } from './database.ts'

export interface ConsumedNonce {
  nonce: string
  consumedAtMs: number
}

export interface NonceAuditStore {
  record(consumed: readonly ConsumedNonce[]): Promise<void>
  /** Deletes what is older. @returns how many rows */
  sweep(maxAgeSeconds: number): Promise<number>
}

const RECORD: Statement = {
  name: 'nonce-audit-record',
  text: `
    INSERT INTO nonce_audit (nonce, consumed_at)
    SELECT nonce, to_timestamp(ms / 1000) FROM unnest($1::text[], $2::float8[]) AS u (nonce, ms)`,
}

/** Bounds the time of a statement. */
const SWEEP_PAGE = 20_000

const SWEEP: Statement = {
  name: 'nonce-audit-sweep',
  // nonce_audit_age
  text: `
    WITH gone AS (
      DELETE FROM nonce_audit
       WHERE ctid = ANY (ARRAY(SELECT ctid FROM nonce_audit
                                WHERE consumed_at < now() - make_interval(secs => $1) LIMIT ${SWEEP_PAGE}))
      RETURNING 1)
    SELECT count(*)::integer AS rows FROM gone`,
}

export function createNonceAuditStore(db: Pick<Database, 'query'>): NonceAuditStore {
  return {
    async record(consumed) {
      await db.query(RECORD, [consumed.map(({ nonce }) => nonce), consumed.map(({ consumedAtMs }) => consumedAtMs)])
    },
    async sweep(maxAgeSeconds) {
      for (let deleted = 0; ; ) {
        const [page] = await db.query<{ rows: number }>(SWEEP, [maxAgeSeconds])
        deleted += page?.rows ?? 0
        if ((page?.rows ?? 0) < SWEEP_PAGE) return deleted
      }
    },
  }
}
