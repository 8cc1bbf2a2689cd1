/**
 * `validation-storm`: what clients notice while very many challenges wait for targets that do not answer.
 *
 * Before the clock starts, each account has challenges triggered, up to `--storm` in all, whose http-01 targets are held: the responder
 * takes the connection and says nothing. Then signed reads of other orders are measured. When the clock has stopped the answers
 * go out, and every authorization must become valid; a server that gives up earlier (`challenges.http01.timeout_seconds`)
 * asks again, or fails here. Compare with `signed-read`.
 */

import type { Account } from '../client/account.ts'
import { Failure } from '../client/failure.ts'
import { createOrder, createOrderFor, parseAuthorization, parseOrder } from '../client/order.ts'
import { pollUntil } from '../client/polling.ts'
import type { Context, Scenario } from './scenario.ts'

/** Names of one order; servers bound them. */
const NAMES = 50

export const validationStorm: Scenario = {
  summary: 'signed reads while --storm challenges wait for http-01 targets that do not answer',
  usesAccounts: true,
  answersChallenges: true,
  holdsAnswers: true,
  onlyByName: true,
  floor: { jwsVerifications: 1, csrVerifications: 0, signatures: 0 },
  async prepareAccount(client, context, account) {
    account.orderUrl = (await createOrder(client, context.directory, account, context.nextName(account))).url
    account.waiting = []
    for (let left = shareOfAccount(context, account); left > 0; left -= NAMES) {
      const names = Array.from({ length: Math.min(NAMES, left) }, () => context.nextName(account))
      const { order } = await createOrderFor(client, context.directory, account, names)
      for (const url of order.authorizations) {
        const { challenges } = parseAuthorization(await client.post('authorization', account, url, ''))
        const challenge = challenges.find(({ type }) => type === 'http-01')
        if (!challenge) throw new Failure('no-challenge', 'the authorization offers no http-01 challenge')
        await client.post('challenge', account, challenge.url, '{}')
        account.waiting.push(url)
      }
    }
  },
  async operate(client, { nextAccount }) {
    const account = nextAccount()
    const order = parseOrder(await client.post('order', account, account.orderUrl, ''))
    if (order.status !== 'pending') throw new Failure('check-order', `the order is ${order.status}, not pending`)
  },
  async finishAccount(client, context, account) {
    for (const url of account.waiting ?? []) {
      const read = () => client.post('poll-authorization', account, url, '')
      const settled = (response: Awaited<ReturnType<typeof read>>) => parseAuthorization(response).status === 'valid'
      const first = await read()
      if (!settled(first)) await pollUntil(context.poll, 'a held authorization', first, read, settled)
    }
  },
}

function shareOfAccount({ storm, accountCount }: Context, { index }: Account): number {
  return Math.floor(storm / accountCount) + (index < storm % accountCount ? 1 : 0)
}
