/** SQL of sealed keys, all at once: HMAC keys of binding credentials, keys of upstream accounts. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'

const SealedKey = z.object({ id: z.string(), name: z.string(), sealed: z.instanceof(Buffer) })
export type SealedKeyRow = z.infer<typeof SealedKey>

const None = z.object({})

/** Nobody makes a credential until the transaction ends; registrations read on. */
export async function lockSealedKeys(tx: CommonQueryMethods): Promise<readonly SealedKeyRow[]> {
  await tx.query(rowsOf(None)`LOCK TABLE eab_credentials IN SHARE ROW EXCLUSIVE MODE`)
  return tx.any(rowsOf(SealedKey)`SELECT id, kid AS name, hmac_key AS sealed FROM eab_credentials ORDER BY id`)
}

export async function lockUpstreamKeys(tx: CommonQueryMethods): Promise<readonly SealedKeyRow[]> {
  await tx.query(rowsOf(None)`LOCK TABLE upstream_accounts IN SHARE ROW EXCLUSIVE MODE`)
  return tx.any(rowsOf(SealedKey)`SELECT id, email AS name, sealed_key AS sealed FROM upstream_accounts ORDER BY id`)
}

export async function replaceUpstreamKey(tx: CommonQueryMethods, id: string, sealed: Buffer): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE upstream_accounts SET sealed_key = ${sql.binary(sealed)} WHERE id = ${id}`)
}

export async function replaceSealedKey(tx: CommonQueryMethods, id: string, sealed: Buffer): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE eab_credentials SET hmac_key = ${sql.binary(sealed)} WHERE id = ${id}`)
}
