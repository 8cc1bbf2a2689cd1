/** POST account orders: an account's orders (RFC 8555 §7.1.2.1; docs/decisions/orders-list.md). */

import { isUuid } from '../shared/lib/uuid.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { requireOwnAccount } from './account.ts'
import { acmeEndpoint } from './endpoint.ts'

export const accountOrders = acmeEndpoint({
  resource: 'accountOrders',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id, query }, { ordering, limits, urls, settings }) {
    requireOwnAccount(signer, id)
    const cursor = new URLSearchParams(query).get('cursor') ?? undefined
    if (cursor !== undefined && !isUuid(cursor)) throw new Problem('malformed', 'the cursor is not one of this list')
    await limits.charge([{ category: 'account_orders', subject: id }])
    const page = await ordering.listOrders(signer.requester, cursor, settings.ordersPageSize)
    const next = `${urls.numbered('accountOrders', id)}?cursor=${page.next}`
    return {
      status: 200,
      body: JSON.stringify({ orders: page.ids.map((orderId) => urls.numbered('order', orderId)) }),
      ...(page.next !== undefined && { links: [`<${next}>;rel="next"`] }),
    }
  },
})
