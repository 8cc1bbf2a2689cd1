/** `account-orders`: the list of an account's orders (RFC 8555 §7.1.2.1), the one list that clients and operators share. */

import { parseObject } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import { createOrder } from '../client/order.ts'
import { type Scenario, Unsupported } from './scenario.ts'

/** Enough for a list, few enough for one page everywhere. */
const ORDERS = 10

export const accountOrders: Scenario = {
  summary: `POST-as-GET of the list of orders of an account that has ${ORDERS}`,
  usesAccounts: true,
  floor: { jwsVerifications: 1, csrVerifications: 0, signatures: 0 },
  async prepareAccount(client, { directory, nextName }, account) {
    if (account.ordersUrl === undefined) throw new Unsupported('the accounts have no orders URL')
    account.orderUrls = []
    for (let i = 0; i < ORDERS; i++)
      account.orderUrls.push((await createOrder(client, directory, account, nextName(account))).url)
  },
  async operate(client, { nextAccount }) {
    const account = nextAccount()
    const { orders } = parseObject(await client.post('account-orders', account, account.ordersUrl as string, ''))
    if (!Array.isArray(orders)) throw new Failure('check-orders', 'the list has no orders')
    const listed = new Set(orders)
    const missing = account.orderUrls?.find((url) => !listed.has(url))
    if (missing !== undefined) throw new Failure('check-orders', `${missing} is not among ${orders.length} orders`)
  },
}
