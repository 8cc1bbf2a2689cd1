/** POST account orders: the list of an account's orders (RFC 8555 §7.1.2.1; decisions 20). */

import { isUuid } from '../shared/lib/uuid.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { requireOwnAccount } from './account.ts'
import { acmeEndpoint } from './endpoint.ts'

export const accountOrders = acmeEndpoint({
  resource: 'accountOrders',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id, query }, { ordering, urls, settings }) {
    requireOwnAccount(signer, id)
    const cursor = new URLSearchParams(query).get('cursor') ?? undefined
    if (cursor !== undefined && !isUuid(cursor)) throw new Problem('malformed', 'the cursor is not one of this list')
    // One more than a page shows whether there is a next one.
    const ids = await ordering.listOrders(signer.requester, cursor, settings.ordersPageSize + 1)
    const page = ids.slice(0, settings.ordersPageSize)
    const next = `${urls.numbered('accountOrders', id)}?cursor=${page.at(-1)}`
    return {
      status: 200,
      body: JSON.stringify({ orders: page.map((orderId) => urls.numbered('order', orderId)) }),
      ...(ids.length > page.length && { links: [`<${next}>;rel="next"`] }),
    }
  },
})
