/** Seals the HMAC keys of binding credentials under another secret: all of them, or none. */

import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { lockSealedKeys, replaceSealedKey } from '../../store/admin/reseal-store.ts'
import type { AuditLog } from './audit-log.ts'

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
    const rows = await lockSealedKeys(tx)
    let resealed = 0
    for (const { id, kid, hmac_key } of rows) {
      if (current.open(hmac_key, id)) continue
      const key = former.map((box) => box.open(hmac_key, id)).find((plain) => plain !== undefined)
      if (!key)
        throw new AdminError(
          'conflict',
          `the key of ${JSON.stringify(kid)} opens under neither secret; nothing is changed`,
        )
      await replaceSealedKey(tx, id, current.seal(key, id))
      resealed++
    }
    if (resealed > 0) note('eab.reseal', { credentials: resealed })
    return { resealed, kept: rows.length - resealed }
  })
}
