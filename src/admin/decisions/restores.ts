/**
 * How each decision comes back that a fail-over has lost, in the order in which they were made
 * (docs/decisions/decisions-outlive-the-database.md).
 */

import * as z from 'zod/v4'
import type { Decision as Verdict } from '../../domain/approval.ts'
import type { RestrictingAct } from '../../domain/decision.ts'
import { deactivateAccount } from '../../store/account-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { createServerSettings, type ServerSwitch } from '../../store/switch-store.ts'
import { lockApproval, noteDecision, takeResult } from '../approvals/approval-store.ts'
import { lockAccount, writeAccount } from '../certificates/account-changes.ts'
import { deleteWithApprovals, disallowWithApprovals } from '../eab/allowed-identifiers.ts'
import {
  findCredential,
  lockCredential,
  lockGrantsOfAccount,
  revokeCredential,
  writeTags,
} from '../eab/credential-store.ts'
import { disallowToAccount } from '../eab/identifier-store.ts'
import { deactivateAuthorization, findMissing, takeContacts, takeKey } from './account-decisions.ts'
import { PROFILE_RESTORES } from './profiles.ts'
import { changed, type Restore, restoredAs, restoredIf, restoring, withoutRemoved } from './restore.ts'
import { REVOCATION_RESTORES } from './revocations.ts'
import { USER_RESTORES } from './users.ts'

const Account = z.object({ account_id: z.string() })

const deactivate = restoring(Account, async (tx, { account_id: id }) =>
  restoredIf(await deactivateAccount(queriesOf(tx), id)),
)

const Written = Account.extend({ label: changed(z.string().nullable()), tags: changed(z.array(z.string())) })
const ChangedKey = Account.extend({ key_version: z.int(), jwk: z.string(), thumbprint: z.string() })

/** Restrictions of ACME accounts come back, by administrators and by their owners. */
const ACCOUNT_RESTORES = {
  // A name gives nothing to anybody, so it comes back, too.
  'account.update': restoring(Written, async (tx, { account_id: id, label, tags }) => {
    const now = await lockAccount(tx, id, undefined)
    if (!now) return 'overtaken'
    const left = withoutRemoved(now.tags, tags)
    const name = label ? label.after : now.label
    const isChanged = left.isChanged || name !== now.label
    if (isChanged) await writeAccount(tx, id, { label: name, tags: left.tags })
    return restoredAs({ isChanged, isWhole: left.isWhole })
  }),
  'account.deactivate': deactivate,
  'acme.deactivate_account': deactivate,
  'acme.update_contacts': restoring(Account.extend({ contacts: z.array(z.string()) }), async (tx, details) =>
    restoredIf(await takeContacts(queriesOf(tx), details.account_id, details.contacts)),
  ),
  // Where another account has the new key, or it is blocked, the old one ends all the same.
  'acme.change_key': restoring(ChangedKey, async (tx, key, decision) => {
    const db = queriesOf(tx)
    if (!(await findMissing(db, 'acme.change_key', [decision])).has(decision.id)) return 'overtaken'
    if (await takeKey(db, { accountId: key.account_id, keyVersion: key.key_version, ...key })) return 'restored'
    await deactivateAccount(db, key.account_id)
    return 'partly'
  }),
  'acme.deactivate_authorization': restoring(
    Account.extend({ authorization_id: z.string() }),
    async (tx, { account_id: account, authorization_id: id }) =>
      restoredIf(await deactivateAuthorization(queriesOf(tx), account, id)),
  ),
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
