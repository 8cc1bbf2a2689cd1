/** What administrators write about an account: its name and its tags. */

import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { mayRetag, scopeOf } from '../../domain/permissions.ts'
import { lockAccount, writeAccount } from '../../store/account-changes.ts'
import { type FoundAccount, findAccount } from '../../store/account-list.ts'
import type { AuditLog } from '../audit/audit-log.ts'

/** A member that is undefined stays as it is. */
interface WantedAccount {
  label?: string | null | undefined
  tags?: readonly string[] | undefined
}

export function updateAccount(
  audit: AuditLog,
  actor: Actor,
  id: string,
  { label, tags }: WantedAccount,
): Promise<FoundAccount> {
  const scope = scopeOf(actor)
  return audit.transaction(actor, async (tx, note) => {
    const before = await lockAccount(tx, id, scope)
    if (!before) throw notFound('account')
    const after = { label: label === undefined ? before.label : label, tags: tags ?? before.tags }
    if (!mayRetag(scope, before.tags, after.tags))
      throw new AdminError(
        'forbidden',
        `you may add and remove only the tags that you look after, and one of them must stay: ${scope?.join(', ')}`,
      )
    const changes = {
      ...(after.label !== before.label && { label: { before: before.label, after: after.label } }),
      ...(after.tags.join() !== before.tags.join() && { tags: { before: before.tags, after: after.tags } }),
    }
    if (Object.keys(changes).length > 0) {
      await writeAccount(tx, id, after)
      note('account.update', { account_id: id, ...changes })
    }
    return (await findAccount(tx, id, scope)) as FoundAccount
  })
}
