/** SQL of the names of certificates that an earlier release has recorded as they were written (migration 0034). */

import type { CertificateNames } from '../domain/certificate-names.ts'
import { silenceEvents } from './account-import.ts'
import type { Database, Statement } from './database.ts'

export interface CertificateNamesStore {
  /**
   * Gives certificates of no order, in the window behind this id, the names that their DER has.
   * @param read undefined for what is to stay
   * @returns how many changed, and the end of the window; undefined behind the last certificate
   */
  rename(
    afterId: string,
    read: (der: Buffer) => CertificateNames | undefined,
  ): Promise<{ changed: number; end: string | undefined }>
}

const READ: Statement = {
  name: 'certificate-names-read',
  // certificates_pkey, 20 ms where nothing fits
  text: `
    WITH place AS MATERIALIZED (SELECT id FROM certificates WHERE id > $1 ORDER BY id OFFSET 4999 LIMIT 1)
    SELECT c.id, c.der, (SELECT id FROM place) AS "end"
      FROM (SELECT) one LEFT JOIN certificates c
        ON c.id > $1 AND c.id <= coalesce((SELECT id FROM place), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
       AND c.order_id IS NULL AND c.der <> ''`,
}

const WRITE: Statement = {
  name: 'certificate-names-write',
  text: `
    UPDATE certificates c SET names = i.names, identifiers = i.identifiers
      FROM (SELECT id, ARRAY(SELECT jsonb_array_elements_text(names)) AS names, identifiers
              FROM unnest($1::uuid[], $2::jsonb[], $3::smallint[]) AS i (id, names, identifiers)) i
     WHERE c.id = i.id AND (c.names, c.identifiers) IS DISTINCT FROM (i.names, i.identifiers) RETURNING c.id`,
}

export const createCertificateNamesStore = (db: Database): CertificateNamesStore => ({
  rename: (afterId, read) =>
    db.transaction(async (tx) => {
      // A revoked certificate that changes would be an event again.
      await silenceEvents(tx)
      const rows = await tx.query<{ id: string | null; der: Buffer; end: string | null }>(READ, [afterId])
      const named = rows.flatMap(({ id, der }) => ({ id, ...(id === null ? undefined : read(der)) }))
      const found = named.filter(({ names }) => names !== undefined)
      const [ids, names] = [found.map(({ id }) => id), found.map((one) => JSON.stringify(one.names))]
      const changed = await tx.query(WRITE, [ids, names, found.map(({ identifiers }) => identifiers)])
      return { changed: changed.length, end: rows[0]?.end ?? undefined }
    }),
})
