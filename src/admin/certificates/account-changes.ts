/** Administrators give an account a name and tags. */

import * as z from 'zod/v4'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { mayRetag, type Scope, scopeOf } from '../../domain/permissions.ts'
import { isInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, rowsOf, sql } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type FoundAccount, findAccount } from './account-list.ts'

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

const Written = z.object({ label: z.string().nullable(), tags: z.array(z.string()) })
type Written = z.infer<typeof Written>

interface NewAccountText {
  label: string | null
  tags: readonly string[]
}

/** Locks its row until the transaction ends. Null when there is no such account in the scope. */
export function lockAccount(tx: CommonQueryMethods, id: string, scope: Scope): Promise<Written | null> {
  return tx.maybeOne(rowsOf(Written)`
    SELECT label, tags FROM accounts a WHERE id = ${id} AND ${isInScope(sql.fragment`a`, scope)} FOR UPDATE`)
}

export async function writeAccount(tx: CommonQueryMethods, id: string, { label, tags }: NewAccountText): Promise<void> {
  await tx.query(rowsOf(z.object({}))`
    UPDATE accounts SET label = ${label}, tags = ${sql.array([...tags], 'text')} WHERE id = ${id}`)
}
