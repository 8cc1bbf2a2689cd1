/** SQL of the sealed HMAC keys of binding credentials, all at once. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf, sql } from '../slonik.ts'

const SealedKey = z.object({ id: z.string(), kid: z.string(), hmac_key: z.instanceof(Buffer) })
export type SealedKeyRow = z.infer<typeof SealedKey>

const None = z.object({})

/** Nobody makes a credential until the transaction ends; registrations read on. */
export async function lockSealedKeys(tx: CommonQueryMethods): Promise<readonly SealedKeyRow[]> {
  await tx.query(rowsOf(None)`LOCK TABLE eab_credentials IN SHARE ROW EXCLUSIVE MODE`)
  return tx.any(rowsOf(SealedKey)`SELECT id, kid, hmac_key FROM eab_credentials ORDER BY id`)
}

export async function replaceSealedKey(tx: CommonQueryMethods, id: string, sealed: Buffer): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE eab_credentials SET hmac_key = ${sql.binary(sealed)} WHERE id = ${id}`)
}
