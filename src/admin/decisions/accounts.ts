/** Brings back what restricts ACME accounts, whoever decided it. */

import * as z from 'zod/v4'
import { deactivateAccount } from '../../store/account-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { lockAccount, writeAccount } from '../certificates/account-changes.ts'
import { deactivateAuthorization, findLacking, takeContacts, takeKey } from './account-decisions.ts'
import { changed, restoredAs, restoredIf, restoring, withoutRemoved } from './restore.ts'

const Account = z.object({ account_id: z.string() })

const deactivate = restoring(Account, async (tx, { account_id: id }) =>
  restoredIf(await deactivateAccount(queriesOf(tx), id)),
)

const Written = Account.extend({ label: changed(z.string().nullable()), tags: changed(z.array(z.string())) })
const ChangedKey = Account.extend({ key_version: z.int(), jwk: z.string(), thumbprint: z.string() })

export const ACCOUNT_RESTORES = {
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
    if (!(await findLacking(db, 'acme.change_key', [decision])).has(decision.id)) return 'overtaken'
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
