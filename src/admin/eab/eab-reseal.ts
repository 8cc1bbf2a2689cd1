/**
 * Seals keys under another secret, all of them or none: HMAC keys of binding credentials, and keys
 * of accounts at upstream ACME services.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'

/**
 * May be repeated: what is under the new secret already stays.
 *
 * @param former boxes of the old secret, in the spellings it may have had
 * @throws AdminError conflict when a key opens under none of them; nothing is changed then
 */
export function resealCredentials(
  audit: AuditLog,
  actor: Actor,
  former: readonly SecretBox[],
  current: SecretBox,
): Promise<{ resealed: number; kept: number }> {
  return audit.transaction(actor, async (tx, note) => {
    const boxes = { former, current }
    const credentials = await lockSealedKeys(tx)
    const accounts = await lockUpstreamKeys(tx)
    const resealed =
      (await resealAll(tx, credentials, boxes, replaceSealedKey)) +
      (await resealAll(tx, accounts, boxes, replaceUpstreamKey))
    if (resealed > 0) note('eab.reseal', { credentials: resealed })
    return { resealed, kept: credentials.length + accounts.length - resealed }
  })
}

async function resealAll(
  tx: CommonQueryMethods,
  rows: readonly SealedKeyRow[],
  { former, current }: { former: readonly SecretBox[]; current: SecretBox },
  replace: typeof replaceSealedKey,
): Promise<number> {
  let resealed = 0
  for (const { id, name, sealed } of rows) {
    if (current.open(sealed, id)) continue
    const key = former.map((box) => box.open(sealed, id)).find((plain) => plain !== undefined)
    if (!key)
      throw new AdminError(
        'conflict',
        `the key of ${JSON.stringify(name)} opens under neither secret; nothing is changed`,
      )
    await replace(tx, id, current.seal(key, id))
    resealed++
  }
  return resealed
}

const SealedKey = z.object({ id: z.string(), name: z.string(), sealed: z.instanceof(Buffer) })
type SealedKeyRow = z.infer<typeof SealedKey>

const None = z.object({})

/** No credential is made until the transaction ends; registrations still read. */
async function lockSealedKeys(tx: CommonQueryMethods): Promise<readonly SealedKeyRow[]> {
  await tx.query(rowsOf(None)`LOCK TABLE eab_credentials IN SHARE ROW EXCLUSIVE MODE`)
  return tx.any(rowsOf(SealedKey)`SELECT id, kid AS name, hmac_key AS sealed FROM eab_credentials ORDER BY id`)
}

async function lockUpstreamKeys(tx: CommonQueryMethods): Promise<readonly SealedKeyRow[]> {
  await tx.query(rowsOf(None)`LOCK TABLE upstream_accounts IN SHARE ROW EXCLUSIVE MODE`)
  return tx.any(rowsOf(SealedKey)`SELECT id, email AS name, sealed_key AS sealed FROM upstream_accounts ORDER BY id`)
}

async function replaceUpstreamKey(tx: CommonQueryMethods, id: string, sealed: Buffer): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE upstream_accounts SET sealed_key = ${sql.binary(sealed)} WHERE id = ${id}`)
}

async function replaceSealedKey(tx: CommonQueryMethods, id: string, sealed: Buffer): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE eab_credentials SET hmac_key = ${sql.binary(sealed)} WHERE id = ${id}`)
}
