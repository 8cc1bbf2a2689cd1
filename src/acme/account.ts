/** POST account: fetch, update contacts, deactivate (RFC 8555 §7.3.2, §7.3.6). */

import { z } from 'zod/v4'
import type { KnownAccount } from '../services/account-cache.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { acmeEndpoint } from './endpoint.ts'
import { renderAccount } from './resources.ts'

export const account = acmeEndpoint({
  resource: 'account',
  signedBy: 'kid',
  payload: {
    schema: z.object({ contact: z.array(z.string()).optional(), status: z.string().optional() }),
    orFetch: true,
  },
  async handle({ signer, id, payload }, { registration, urls, limits }) {
    requireOwnAccount(signer, id)
    const { status, contact } = payload ?? {}
    const isUpdate = status !== 'deactivated' && contact !== undefined
    // First of all: an update can cost MX look-ups and a row lock.
    const counted = isUpdate ? limits.charge([{ category: 'account_update', subject: id }]) : undefined
    if (counted) await counted
    const changed =
      status === 'deactivated'
        ? await registration.deactivate(signer)
        : contact !== undefined
          ? await registration.updateContacts(signer, contact)
          : await registration.read(signer)
    return { status: 200, body: renderAccount(changed, urls), location: urls.numbered('account', id) }
  },
})

export function requireOwnAccount(signer: KnownAccount, accountId: string): void {
  if (signer.account.id !== accountId) throw new Problem('unauthorized', 'the request is signed by another account')
}
