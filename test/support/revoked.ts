/** Revoked certificates by the hundred thousand, straight into the database: what a long CRL is made of. */

import pg from 'pg'
import type { DatabaseConnection } from './postgres.ts'

/** A query on a connection of its own, closed with the work. */
export async function withQuery<T>(
  connection: DatabaseConnection,
  work: (query: (text: string, values?: unknown[]) => Promise<Record<string, unknown>[]>) => Promise<T>,
): Promise<T> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    return await work(async (text, values = []) => (await client.query(text, values)).rows)
  } finally {
    await client.end()
  }
}

/** Valid for a month, revoked within the last days, half of them with a reason. In steps, so that no statement takes long. */
export async function insertRevoked(connection: DatabaseConnection, fingerprint: string, count: number): Promise<void> {
  await withQuery(connection, async (query) => {
    for (let done = 0; done < count; done += STEP) {
      await query(INSERT, [fingerprint, Math.min(STEP, count - done)])
    }
    await query(
      `INSERT INTO crl_changes (issuer_fingerprint, slot, changes)
       SELECT decode($1, 'hex'), octet, $2 FROM generate_series(0, 255) octet
       ON CONFLICT (issuer_fingerprint, slot) DO UPDATE SET changes = crl_changes.changes + EXCLUDED.changes`,
      [fingerprint, count],
    )
  })
}

const STEP = 50_000
const INSERT = `
  INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, revoked_at,
                            revocation_reason)
  SELECT gen_random_uuid(), decode('40' || left(replace(gen_random_uuid()::text, '-', ''), 30), 'hex'), decode($1, 'hex'),
         '{host.example}', now() - interval '10 days', now() + interval '30 days', '\\x3000',
         date_trunc('second', now() - random() * interval '9 days'), CASE WHEN n % 2 = 0 THEN 1 END
    FROM generate_series(1, $2) n`
