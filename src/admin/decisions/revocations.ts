/** Brings back blocked keys, with all that blocking does, and revocations that are under way. */

import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import { ADMINISTRATORS_REASONS, revocationReasonName } from '../../domain/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { recordUnseen, revokeListed } from '../../store/certificate-import.ts'
import { revokeCertificate } from '../../store/certificate-store.ts'
import { blockProvedKey } from '../../store/compromised-key-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { Transaction } from '../audit/audit-log.ts'
import { insertBlock } from '../revocations/blocked-key-endpoints.ts'
import { findJob, insertJob } from '../revocations/bulk-revocation-store.ts'
import { RevocationFilter } from '../revocations/revocation-filter.ts'
import { restoredAs, restoredIf, restoring } from './restore.ts'

const Key = z.object({ spki_sha256: z.string() })
const Certificate = z.object({ serial_number: z.string(), issuer_fingerprint: z.string(), not_after: z.coerce.date() })
const Revoked = z.object({
  certificate_id: z.string(),
  reason: z.string(),
  blocked_key: z.string().optional(),
  unseen: Certificate.optional(),
})
/** Revokes a certificate that may come back from the signer only later. */
async function revokeUnseen(
  tx: Transaction,
  { serial_number: serial, issuer_fingerprint: issuer, not_after: notAfter }: z.infer<typeof Certificate>,
  reason: number,
  at: string,
): Promise<boolean> {
  const issuerFingerprints = [Buffer.from(issuer, 'hex')]
  const unseen = { id: uuidv7(Date.now()), serialNumber: Buffer.from(serial, 'hex') }
  await recordUnseen(queriesOf(tx), issuerFingerprints, notAfter, [unseen])
  const entries = [{ serialNumber: serial, reason, revokedAt: new Date(at) }]
  return (await revokeListed(queriesOf(tx), { issuerFingerprints, entries })).length > 0
}

const Begun = z.object({
  job_id: z.string(),
  filter: z.object({ serial_numbers_total: z.int().optional() }),
  job: z.object({
    filter: RevocationFilter,
    reason: z.int(),
    author: z.custom<Actor>(),
    at_most: z.int().nullable(),
  }),
})

export const REVOCATION_RESTORES = {
  'key.block': restoring(Key, async (tx, { spki_sha256: key }) => restoredIf((await insertBlock(tx, key)) !== null)),
  'acme.prove_compromise': restoring(Key, async (tx, { spki_sha256: key }) =>
    restoredIf(await blockProvedKey(queriesOf(tx), key)),
  ),
  'acme.revoke': restoring(Certificate.extend({ reason: z.int() }), async (tx, revoked, { at }) =>
    restoredIf(await revokeUnseen(tx, revoked, revoked.reason, at)),
  ),
  'certificate.revoke': restoring(
    Revoked,
    async (tx, { certificate_id: certificateId, reason, blocked_key: key, unseen }, { at }) => {
      const code = ADMINISTRATORS_REASONS.find((one) => revocationReasonName(one) === reason)
      if (code === undefined) return 'lost'
      const blockedKey = key === undefined ? undefined : Buffer.from(key, 'hex')
      const revocation = { certificateId, reason: code, blockedKey, requester: undefined, revokedAt: new Date(at) }
      const isRevoked = (await revokeCertificate(queriesOf(tx), revocation)) === true
      return restoredIf(isRevoked || (unseen !== undefined && (await revokeUnseen(tx, unseen, code, at))))
    },
  ),
  // Any instance takes it up. What was issued later is not its own.
  'certificate.bulk_revoke': restoring(Begun, async (tx, { job_id: id, filter, job }, { at }) => {
    const isThere = (await findJob(tx, id)) !== null
    if (!isThere) await insertJob(tx, { id, ...job }, at)
    const recorded = job.filter.serial_numbers?.length
    return restoredAs({ isChanged: !isThere, isWhole: isThere || filter.serial_numbers_total === recorded })
  }),
}
