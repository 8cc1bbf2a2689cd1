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
  async handle({ signer, id, payload }, { registration, urls }) {
    requireOwnAccount(signer, id)
    const changed =
      payload?.status === 'deactivated'
        ? await registration.deactivate(signer)
        : payload?.contact !== undefined
          ? await registration.updateContacts(signer, payload.contact)
          : await registration.read(signer)
    return { status: 200, body: renderAccount(changed, urls), location: urls.numbered('account', id) }
  },
})

export function requireOwnAccount(signer: KnownAccount, accountId: string): void {
  if (signer.account.id !== accountId) throw new Problem('unauthorized', 'the request is signed by another account')
}
