/** SQL of the names of certificates that an earlier release has recorded as they were written (migration 0034). */

import type { CertificateNames } from '../domain/certificate-names.ts'
import { type Database, type Statement, silenceEvents } from './database.ts'
import { createRetentionStore } from './retention-store.ts'

const WALK = 'certificate_names'
/** The walk runs once in a database, so the pause is longer than any service runs. */
const PAUSE_SECONDS = 1e9
const PAGE = 2_000

const READ: Statement = {
  name: 'certificate-names-read',
  // certificates_pkey. Certificates of orders have the names of the order.
  text: `
    SELECT id, CASE WHEN order_id IS NULL AND der <> '' THEN der END AS der
      FROM certificates WHERE id > $1 ORDER BY id LIMIT ${PAGE}`,
}

const WRITE: Statement = {
  name: 'certificate-names-write',
  text: `
    UPDATE certificates c SET names = i.names, identifiers = i.identifiers
      FROM (SELECT id, ARRAY(SELECT jsonb_array_elements_text(names)) AS names, identifiers
              FROM unnest($1::uuid[], $2::jsonb[], $3::smallint[]) AS i (id, names, identifiers)) i
     WHERE c.id = i.id AND (c.names, c.identifiers) IS DISTINCT FROM (i.names, i.identifiers) RETURNING c.id`,
}

/**
 * Gives certificates the names that their DER has, page by page; a walk that was interrupted begins again.
 * @param read undefined for what is to stay
 * @returns one round, which resolves to how many have changed; to undefined once any instance has ended the walk
 */
export function createNameWalk(db: Database, read: (der: Buffer) => CertificateNames | undefined) {
  const progress = createRetentionStore(db)
  let afterId: string | undefined = '00000000-0000-0000-0000-000000000000'
  return async (): Promise<number | undefined> => {
    if (afterId !== undefined && !(await progress.isDue(WALK, PAUSE_SECONDS))) afterId = undefined
    if (afterId === undefined) return undefined
    const rows = await db.query<{ id: string; der: Buffer | null }>(READ, [afterId])
    const found = rows.flatMap(({ id, der }) => {
      const names = der ? read(der) : undefined
      return names ? [{ id, ...names }] : []
    })
    const columns = [
      found.map(({ id }) => id),
      found.map(({ names }) => JSON.stringify(names)),
      found.map((one) => one.identifiers),
    ]
    const changed = await db.transaction(async (tx) => {
      // A revoked certificate that changes would be an event again.
      await silenceEvents(tx)
      return tx.query(WRITE, columns)
    })
    if (rows.length < PAGE) await progress.finish(WALK)
    afterId = rows.length < PAGE ? undefined : rows.at(-1)?.id
    return changed.length
  }
}
