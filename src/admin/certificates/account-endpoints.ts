/** `/accounts`: ACME accounts, and their deactivation. */

import * as z from 'zod/v4'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { mayRetag, scopeOf } from '../../domain/permissions.ts'
import { ACCOUNT_STATUSES } from '../../domain/states.ts'
import { deactivateAccount } from '../../store/account-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { accountName, activityBody, activityMembers } from '../account-names.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { parametersOf } from '../filter-schemas.ts'
import { nextOf, pageRequest, placeParameters, readPageOf } from '../pages.ts'
import { ACCOUNT_FILTERS } from '../resources/accounts.ts'
import { line, tagList, time, timestamp, uuid, whenSound } from '../schemas.ts'
import {
  type ListedAccount as AccountRow,
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
  const { id, label, tags, contacts, thumbprint, jwk, status, terms_agreed, eab_kid, created_at, updated_at } = account
  return {
    id,
    name: accountName({ id, label, contacts, eabKid: eab_kid }),
    label,
    tags,
    contacts,
    jwk_thumbprint: thumbprint,
    ...(role === 'admin' && { jwk: JSON.parse(jwk) }),
    status,
    tos_agreed: terms_agreed,
    eab_kid,
    ...activityBody(account),
    created_at: time(created_at),
    updated_at: time(updated_at),
  }
}

const detailsBody = (account: FoundAccount, reader: Reader): z.input<typeof AccountDetails> => ({
  ...accountBody(account, reader),
  ...(account.csr_profile_id !== null && { csr_profile_id: account.csr_profile_id }),
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
      const page = await readPageOf(
        (after, most) => listAccounts(db, filter, after, most),
        pageRequest({ limit, offset, cursor }, pages),
        skipOfAccounts(db, filter),
      )
      const counts = await countCertificates(
        db,
        page.rows.map(({ id }) => id),
      )
      const body = page.rows.map((row) => ({
        ...accountBody(row, author),
        certificates: counts.get(row.id) ?? { current: 0, more: false },
      }))
      return { body, next: nextOf(page), isCut: page.isCut }
    },
  }),
  getAccount: endpoint({
    route: 'GET /accounts/{account_id}',
    permission: 'read_accounts',
    scope: 'accounts',
    params,
    reply: { status: 200, schema: AccountDetails },
    async handle({ params, author }, { db }) {
      const account = await findAccount(db, params.account_id, scopeOf(author))
      if (!account) throw notFound('account')
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
    const account = await findAccount(tx, id, scopeOf(actor))
    if (!account) throw notFound('account')
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
