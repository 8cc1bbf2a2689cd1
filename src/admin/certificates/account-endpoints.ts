/** `/accounts`: ACME accounts, and their deactivation. */

import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { requireMayRetag, scopeOf } from '../../domain/permissions.ts'
import { ACCOUNT_STATUSES } from '../../domain/states.ts'
import { deactivateAccount } from '../../store/account-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { placeParameters, readAtPlace } from '../pages.ts'
import { ACCOUNT_FILTERS } from '../resources/accounts.ts'
import { line, parametersOf, tagList, timestamp, uuid, whenSound, withTimes } from '../schemas.ts'
import {
  type ListedAccount as AccountRow,
  accountName,
  activityMembers,
  countCertificates,
  type FoundAccount,
  findAccount,
  listAccounts,
  lockAccount,
  skipOfAccounts,
  writeAccount,
} from './account-list.ts'

const Account = z
  .strictObject({
    id: z.uuid(),
    name: z.string().meta({ description: 'Its label, else its first contact, else its kid, else the end of its id.' }),
    label: z.string().nullable(),
    tags: z.array(z.string()),
    contacts: z.array(z.string()),
    jwk_thumbprint: z.string(),
    jwk: z.record(z.string(), z.unknown()).optional().meta({ description: 'For admins only.' }),
    status: z.enum(ACCOUNT_STATUSES),
    tos_agreed: z.boolean(),
    eab_kid: z.string().nullable(),
    ...activityMembers(),
    created_at: timestamp(),
    updated_at: timestamp(),
  })
  .meta({ id: 'Account' })

const ListedAccount = z
  .strictObject({
    ...Account.shape,
    certificates: z
      .strictObject({ current: z.int(), more: z.boolean() })
      .meta({ description: 'Neither expired nor revoked, of its last 100 orders; `more`: it has older orders.' }),
  })
  .meta({ id: 'ListedAccount' })

const AccountDetails = z
  .strictObject({ ...Account.shape, csr_profile_id: z.uuid().optional() })
  .meta({ id: 'AccountDetails' })

interface Reader {
  role: string
}

function accountBody(account: AccountRow, { role }: Reader): z.input<typeof Account> {
  const { thumbprint, jwk, terms_agreed, user_agent: client, ...shown } = account
  return {
    ...withTimes(shown),
    name: accountName({ ...shown, eabKid: shown.eab_kid }),
    jwk_thumbprint: thumbprint,
    ...(role === 'admin' && { jwk: JSON.parse(jwk) }),
    tos_agreed: terms_agreed,
    client,
  }
}

const detailsBody = ({ csr_profile_id, ...account }: FoundAccount, reader: Reader): z.input<typeof AccountDetails> => ({
  ...accountBody(account, reader),
  ...(csr_profile_id !== null && { csr_profile_id }),
})

const params = z.strictObject({ account_id: uuid() })
export const ACCOUNTS = endpointGroup('Accounts', {
  listAccounts: endpoint({
    route: 'GET /accounts',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({
      ...parametersOf(ACCOUNT_FILTERS),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(ListedAccount) },
    async handle({ query, author }, { db, pages }) {
      const { limit, offset, cursor, ...chosen } = query
      const filter = { ...chosen, scope: scopeOf(author) }
      const { rows, ...page } = await readAtPlace(
        { limit, offset, cursor },
        pages,
        (after, most) => listAccounts(db, filter, after, most),
        skipOfAccounts(db, filter),
      )
      const counts = await countCertificates(
        db,
        rows.map(({ id }) => id),
      )
      const body = rows.map((row) => ({
        ...accountBody(row, author),
        certificates: counts.get(row.id) ?? { current: 0, more: false },
      }))
      return { body, ...page }
    },
  }),
  getAccount: endpoint({
    route: 'GET /accounts/{account_id}',
    permission: 'read_accounts',
    scope: 'accounts',
    params,
    reply: { status: 200, schema: AccountDetails },
    async handle({ params, author }, { db }) {
      const account = requireFound(await findAccount(db, params.account_id, scopeOf(author)), 'account')
      return { body: detailsBody(account, author) }
    },
  }),
  updateAccount: endpoint({
    route: 'PATCH /accounts/{account_id}',
    permission: 'onboard',
    scope: 'accounts',
    params,
    body: z
      .strictObject({
        label: line(255).nullable().optional().meta({ description: 'Null for none.' }),
        tags: tagList().optional(),
      })
      .refine((change) => Object.keys(change).length > 0, { error: "has none of 'label', 'tags'", when: whenSound }),
    reply: { status: 200, schema: AccountDetails },
    errors: ['forbidden'],
    audit: 'account.update',
    handle: async ({ params, body, author }, { audit }) => ({
      body: detailsBody(await updateAccount(audit, author, params.account_id, body), author),
    }),
  }),
  deactivateAccount: endpoint({
    route: 'POST /accounts/{account_id}/deactivate',
    permission: 'administer',
    params,
    reply: { status: 200, schema: AccountDetails },
    errors: ['conflict'],
    audit: 'account.deactivate',
    handle: async ({ params, author }, { audit }) => ({
      body: detailsBody(await deactivate(audit, author, params.account_id), author),
    }),
  }),
})

/** It is the same as if its owner had asked (RFC 8555 §7.3.6). An account that was deactivated before stays as it is. */
function deactivate(audit: AuditLog, actor: Actor, id: string): Promise<FoundAccount> {
  return audit.transaction(actor, async (tx, note) => {
    const account = requireFound(await findAccount(tx, id, scopeOf(actor)), 'account')
    if (await deactivateAccount(queriesOf(tx), id)) note('account.deactivate', { account_id: id })
    else if (account.status === 'revoked') throw new AdminError('conflict', 'the account is revoked')
    return (await findAccount(tx, id, scopeOf(actor))) as FoundAccount
  })
}

/** A member that is undefined stays as it is. */
interface WantedAccount {
  label?: string | null | undefined
  tags?: readonly string[] | undefined
}

function updateAccount(
  audit: AuditLog,
  actor: Actor,
  id: string,
  { label, tags }: WantedAccount,
): Promise<FoundAccount> {
  const scope = scopeOf(actor)
  return audit.transaction(actor, async (tx, note) => {
    const before = requireFound(await lockAccount(tx, id, scope), 'account')
    const after = { label: label === undefined ? before.label : label, tags: tags ?? before.tags }
    requireMayRetag(scope, before.tags, after.tags)
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
