/** `/accounts`: ACME accounts. */

import { z } from 'zod/v4'
import { ACCOUNT_STATUSES } from '../../domain/states.ts'
import type { FoundAccount, ListedAccount } from '../../store/account-list.ts'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { nextOf, pageRequest, placeParameters } from '../pages.ts'
import { flagParameter, instantParameter, line, time, timestamp, uuid } from '../schemas.ts'

export const Account = z
  .strictObject({
    id: z.uuid(),
    jwk_thumbprint: z.string(),
    jwk: z.record(z.string(), z.unknown()).optional().meta({ description: 'For admins only.' }),
    status: z.enum(ACCOUNT_STATUSES),
    tos_agreed: z.boolean(),
    eab_kid: z.string().nullable(),
    created_at: timestamp(),
    updated_at: timestamp(),
  })
  .meta({ id: 'Account' })

const AccountDetails = z
  .strictObject({ ...Account.shape, contacts: z.array(z.string()), csr_profile_id: z.uuid().optional() })
  .meta({ id: 'AccountDetails' })

interface Reader {
  role: string
}

function accountBody(account: ListedAccount, { role }: Reader): z.input<typeof Account> {
  const { id, thumbprint, jwk, status, terms_agreed, eab_kid, created_at, updated_at } = account
  return {
    id,
    jwk_thumbprint: thumbprint,
    ...(role === 'admin' && { jwk: JSON.parse(jwk) }),
    status,
    tos_agreed: terms_agreed,
    eab_kid,
    created_at: time(created_at),
    updated_at: time(updated_at),
  }
}

const detailsBody = (account: FoundAccount, reader: Reader): z.input<typeof AccountDetails> => ({
  ...accountBody(account, reader),
  contacts: account.contacts,
  ...(account.csr_profile_id !== null && { csr_profile_id: account.csr_profile_id }),
})

const params = z.strictObject({ account_id: uuid() })
export const ACCOUNTS = endpointGroup('Accounts', {
  listAccounts: endpoint({
    route: 'GET /accounts',
    roles: BOTH_ROLES,
    summary: 'Lists ACME accounts, the newest first.',
    query: z.strictObject({
      status: z.enum(ACCOUNT_STATUSES).optional(),
      eab_only: flagParameter().optional(),
      eab_kid: z.string().min(1).max(255).optional(),
      contact: line(512).optional(),
      created_before: instantParameter().optional(),
      created_after: instantParameter().optional(),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(Account) },
    async handle({ query, author }, { accounts, pages }) {
      const { status, eab_only, eab_kid, contact, created_before, created_after, ...place } = query
      const filter = {
        status,
        eabOnly: eab_only,
        eabKid: eab_kid,
        contactPart: contact,
        createdBefore: created_before,
        createdAfter: created_after,
      }
      const page = await accounts.list(filter, pageRequest(place, pages))
      return { body: page.rows.map((row) => accountBody(row, author)), next: nextOf(page), isCut: page.isCut }
    },
  }),
  getAccount: endpoint({
    route: 'GET /accounts/{account_id}',
    roles: BOTH_ROLES,
    summary: 'Shows one ACME account with its contacts.',
    params,
    reply: { status: 200, schema: AccountDetails },
    errors: ['not_found'],
    handle: async ({ params, author }, { accounts }) => ({
      body: detailsBody(await accounts.find(params.account_id), author),
    }),
  }),
  deactivateAccount: endpoint({
    route: 'POST /accounts/{account_id}/deactivate',
    roles: ADMINS,
    summary: 'Deactivates an ACME account and its authorizations, for good.',
    params,
    reply: { status: 200, schema: AccountDetails },
    errors: ['not_found', 'conflict'],
    audit: 'account.deactivate',
    handle: async ({ params, author }, { accounts }) => ({
      body: detailsBody(await accounts.deactivate(author, params.account_id), author),
    }),
  }),
})
