/** Every scenario by the name it has on the command line. */

import { parseObject } from '../client/acme.ts'
import { Failure } from '../client/http.ts'
import { createOrder, parseOrder, registerAccount } from '../client/resources.ts'
import { fullFlow } from './issue.ts'
import { certificateDownload, crlDownload, renewal, renewalInformation } from './renewal.ts'
import type { Scenario } from './scenario.ts'

const ONE_VERIFICATION = { verifications: 1, signatures: 0 }
/** Enough for a list, few enough for one page everywhere. */
const LISTED_ORDERS = 10

const SCENARIOS = {
  directory: {
    usesAccounts: false,
    floor: undefined,
    async operate(client, { target }) {
      await client.readDirectory(target.directoryUrl)
    },
  },
  nonce: {
    usesAccounts: false,
    floor: undefined,
    async operate(client, { directory }) {
      await client.newNonce(directory.newNonce)
    },
  },
  'new-account': {
    usesAccounts: false,
    floor: ONE_VERIFICATION,
    async operate(client, { directory, target }) {
      await registerAccount(client, directory, 0, target.contact)
    },
  },
  'new-order': {
    usesAccounts: true,
    floor: ONE_VERIFICATION,
    async operate(client, { directory, nextAccount, nextName }) {
      const account = nextAccount()
      await createOrder(client, directory, account, nextName(account))
    },
  },
  /** POST-as-GET of a pending order. */
  'signed-read': {
    usesAccounts: true,
    floor: ONE_VERIFICATION,
    async prepareAccount(client, { directory, nextName }, account) {
      account.orderUrl = (await createOrder(client, directory, account, nextName(account))).url
    },
    async operate(client, { nextAccount }) {
      const account = nextAccount()
      const { status } = parseOrder(await client.post('order', account, account.orderUrl, ''))
      if (status !== 'pending') throw new Failure('check-order', `the order is ${status}, not pending`)
    },
  },
  'full-flow': fullFlow,
  renewal,
  'renewal-info': renewalInformation,
  certificate: certificateDownload,
  crl: crlDownload(),
  /** POST-as-GET of the list of an account's orders (RFC 8555 §7.1.2.1). */
  'account-orders': {
    usesAccounts: true,
    floor: ONE_VERIFICATION,
    async prepareAccount(client, { directory, nextName }, account) {
      for (let i = 0; i < LISTED_ORDERS; i++) await createOrder(client, directory, account, nextName(account))
      const { orders } = parseObject(await client.post('account', account, account.url, ''))
      if (typeof orders !== 'string') throw new Error('the accounts have no orders URL')
      account.orderUrl = orders
    },
    async operate(client, { nextAccount }) {
      const account = nextAccount()
      const { orders } = parseObject(await client.post('account-orders', account, account.orderUrl, ''))
      if (!Array.isArray(orders) || orders.length !== LISTED_ORDERS)
        throw new Failure('check-orders', `the list should have ${LISTED_ORDERS} orders: ${JSON.stringify(orders)}`)
    },
  },
} as const satisfies Record<string, Scenario>

export type ScenarioName = keyof typeof SCENARIOS
export const SCENARIO_NAMES = Object.keys(SCENARIOS) as ScenarioName[]

/** Widened, so that optional members can be asked for. */
export function scenarioNamed(name: ScenarioName): Scenario {
  return SCENARIOS[name]
}
