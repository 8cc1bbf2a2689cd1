/** Every scenario by the name it has on the command line. */

import { registerAccount } from '../client/account.ts'
import { Failure } from '../client/failure.ts'
import { createOrder, parseOrder } from '../client/order.ts'
import { accountOrders } from './account-orders.ts'
import { certificateDownload, crlDownload, renewalInformation } from './certificate-reads.ts'
import { directoryRead } from './directory.ts'
import { fullFlow } from './full-flow.ts'
import { renewal } from './renewal.ts'
import type { Scenario } from './scenario.ts'
import { validationStorm } from './validation-storm.ts'

const ONE_VERIFICATION = { jwsVerifications: 1, csrVerifications: 0, signatures: 0 }

export const SCENARIOS = {
  directory: directoryRead(),
  nonce: {
    summary: 'HEAD new-nonce',
    usesAccounts: false,
    floor: undefined,
    async operate(client, { directory }) {
      await client.newNonce(directory.newNonce)
    },
  },
  'new-account': {
    summary: 'register an account with a fresh key',
    usesAccounts: false,
    floor: ONE_VERIFICATION,
    async operate(client, { directory, newKey }) {
      await registerAccount(client, directory, newKey, 0)
    },
  },
  'new-order': {
    summary: 'order one fresh name',
    usesAccounts: true,
    floor: ONE_VERIFICATION,
    async operate(client, { directory, nextAccount, nextName }) {
      const account = nextAccount()
      await createOrder(client, directory, account, nextName(account))
    },
  },
  'signed-read': {
    summary: 'POST-as-GET of a pending order',
    usesAccounts: true,
    floor: ONE_VERIFICATION,
    async prepareAccount(client, { directory, nextName }, account) {
      account.orderUrl = (await createOrder(client, directory, account, nextName(account))).url
    },
    async operate(client, { nextAccount }) {
      const account = nextAccount()
      const order = parseOrder(await client.post('order', account, account.orderUrl, ''))
      if (order.status !== 'pending') throw new Failure('check-order', `the order is ${order.status}, not pending`)
    },
  },
  'full-flow': fullFlow,
  renewal,
  'renewal-info': renewalInformation,
  certificate: certificateDownload,
  crl: crlDownload(),
  'account-orders': accountOrders,
  'validation-storm': validationStorm,
} as const satisfies Record<string, Scenario>

export type ScenarioName = keyof typeof SCENARIOS

export function isScenarioName(name: string): name is ScenarioName {
  return Object.hasOwn(SCENARIOS, name)
}

/** Widened, so that optional members can be asked for. */
export function scenarioNamed(name: ScenarioName): Scenario {
  return SCENARIOS[name]
}

/** What "all" does not stand for. */
export const ONLY_BY_NAME = Object.keys(SCENARIOS)
  .filter(isScenarioName)
  .filter((name) => scenarioNamed(name).onlyByName)
