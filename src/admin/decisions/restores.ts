/**
 * How each decision comes back that a fail-over has lost, in the order in which they were made
 * (docs/decisions/decisions-outlive-the-database.md).
 */

import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import type { Decision as Verdict } from '../../domain/approval.ts'
import type { RestrictingAct } from '../../domain/decision.ts'
import { ADMINISTRATORS_REASONS, revocationReasonName } from '../../domain/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { recordUnseen, revokeListed } from '../../store/certificate-import.ts'
import { revokeCertificate } from '../../store/certificate-store.ts'
import { blockProvedKey } from '../../store/compromised-key-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { createServerSettings, type ServerSwitch } from '../../store/switch-store.ts'
import { lockApproval, noteDecision, takeResult } from '../approvals/approval-store.ts'
import type { Transaction } from '../audit/audit-log.ts'
import {
  findCredential,
  lockCredential,
  lockGrantsOfAccount,
  revokeCredential,
  writeTags,
} from '../eab/credential-store.ts'
import { deleteWithApprovals, disallowToAccount, disallowWithApprovals } from '../grants/allowed-identifiers.ts'
import { insertBlock } from '../revocations/blocked-key-endpoints.ts'
import { findJob, insertJob } from '../revocations/bulk-revocation-store.ts'
import { RevocationFilter } from '../revocations/revocation-filter.ts'
import { ACCOUNT_RESTORES } from './account-decisions.ts'
import { PROFILE_RESTORES } from './profiles.ts'
import { changed, type Restore, restoredAs, restoredIf, restoring, withoutRemoved } from './restore.ts'
import { USER_RESTORES } from './users.ts'

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

/** Blocked keys come back with all that blocking does, and so do revocations that are under way. */
const REVOCATION_RESTORES = {
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

const Request = z.object({ approval_id: z.string(), reason: z.string().optional() })

const decided = (decision: Verdict): Restore =>
  restoring(Request, async (tx, { approval_id: id, reason }, { by, entry }) => {
    const request = await lockApproval(tx, id)
    if (request?.decision !== null) return 'overtaken'
    await noteDecision(tx, id, { decision, by: { userId: entry?.user_id ?? undefined, username: by }, reason })
    return 'restored'
  })

/** A request for approval is not decided again. What an approved act did has decisions of its own. */
const APPROVAL_RESTORES = {
  'approval.approve': decided('approved'),
  'approval.reject': decided('rejected'),
  'approval.withdraw': decided('withdrawn'),
  // The reply was shown once.
  'approval.collect': restoring(Request, async (tx, { approval_id: id }) => {
    const request = await lockApproval(tx, id)
    return restoredIf(request?.has_result === true && (await takeResult(tx, id)) !== null)
  }),
}

const Name = z.object({ identifier_id: z.string() })
const Credential = z.object({ eab_id: z.string() })

/** Credentials that were revoked, and names and tags that were taken from them and from accounts. */
const CREDENTIAL_RESTORES = {
  'eab.revoke': restoring(Credential, async (tx, { eab_id: id }) => {
    await lockCredential(tx, id)
    const before = await findCredential(tx, id, undefined)
    if (!before) return 'overtaken'
    const revocation = await revokeCredential(tx, id)
    return restoredIf(!before.revoked || (revocation?.revokedAccounts.length ?? 0) > 0)
  }),
  'eab.update': restoring(
    Credential.extend({ tags: changed(z.array(z.string())) }),
    async (tx, { eab_id: id, tags }) => {
      await lockCredential(tx, id)
      const now = await findCredential(tx, id, undefined)
      if (!now) return 'overtaken'
      const left = withoutRemoved(now.tags, tags)
      if (left.isChanged) await writeTags(tx, id, left.tags)
      return restoredAs(left)
    },
  ),
  'eab.remove_identifier': restoring(Credential.extend(Name.shape), async (tx, { eab_id: id, identifier_id: name }) => {
    await lockCredential(tx, id)
    return restoredIf((await disallowWithApprovals(tx, name, id)) !== undefined)
  }),
  'identifier.delete': restoring(Name, async (tx, { identifier_id: name }) =>
    restoredIf((await deleteWithApprovals(tx, name)) !== undefined),
  ),
  'identifier.remove_account': restoring(
    Name.extend({ account_id: z.string() }),
    async (tx, { account_id: id, identifier_id: name }) => {
      await lockGrantsOfAccount(tx, id)
      return restoredIf((await disallowToAccount(tx, name, id)) !== 'absent')
    },
  ),
}

/** Signing that was stopped, and maintenance. */
const on = (name: ServerSwitch): Restore =>
  restoring(z.object({ reason: z.string().optional() }), async (tx, { reason }, { by }) =>
    restoredIf(await createServerSettings(queriesOf(tx)).setSwitch(name, true, { by, reason })),
  )

const SWITCH_RESTORES = { 'signing.stop': on('stopSigning'), 'maintenance.set': on('maintenance') }

export const RESTORES: Readonly<Record<RestrictingAct, Restore>> = {
  ...ACCOUNT_RESTORES,
  ...APPROVAL_RESTORES,
  ...CREDENTIAL_RESTORES,
  ...PROFILE_RESTORES,
  ...REVOCATION_RESTORES,
  ...SWITCH_RESTORES,
  ...USER_RESTORES,
}
