/** Orders and authorizations as the generator reads them (RFC 8555 §7.1.3, §7.1.4). */

import type { Account } from './account.ts'
import { type AcmeClient, type Directory, parseObject, requireUrl, shortProblemType } from './acme.ts'
import { Failure } from './failure.ts'
import type { HttpResponse } from './response-parser.ts'

export interface Order {
  status: string
  identifiers: { type: string; value: string }[]
  authorizations: string[]
  finalize: string
  /** Undefined until the order is valid. */
  certificate: string | undefined
  /** RFC 9773 §5. */
  replaces: string | undefined
}

export interface Authorization {
  status: string
  challenges: ({ type: string; url: string; error?: { type: string; detail: string } } & Readonly<
    Record<string, unknown>
  >)[]
}

/**
 * @param replaces certID of the certificate that the new one follows (RFC 9773 §5)
 * @throws Failure `check-order` when the order is not for exactly this name, or does not say what it replaces.
 */
export function createOrder(
  client: AcmeClient,
  directory: Directory,
  account: Account,
  name: string,
  replaces?: string,
): Promise<{ url: string; order: Order }> {
  return createOrderFor(client, directory, account, [name], replaces)
}

/** The same for several names. */
export async function createOrderFor(
  client: AcmeClient,
  directory: Directory,
  account: Account,
  names: readonly string[],
  replaces?: string,
): Promise<{ url: string; order: Order }> {
  const identifiers = names.map((name) => `{"type":"dns","value":"${name}"}`).join(',')
  const replacing = replaces === undefined ? '' : `,"replaces":"${replaces}"`
  const response = await client.post(
    'new-order',
    account,
    directory.newOrder,
    `{"identifiers":[${identifiers}]${replacing}}`,
  )
  const order = parseOrder(response)
  const asked = new Set(names)
  const isExact = order.identifiers.length === names.length && order.identifiers.every(({ value }) => asked.has(value))
  if (response.status !== 201 || !isExact) {
    throw new Failure(
      'check-order',
      `asked for ${names.join(', ')}, got ${response.status} ${JSON.stringify(order.identifiers)}`,
    )
  }
  if (order.replaces !== replaces)
    throw new Failure('check-order', `the order is to replace ${replaces}, and says ${order.replaces}`)
  return { url: requireUrl(response.location, 'Location of new-order'), order }
}

/** @throws Failure `order-invalid` with the order's own error, `protocol` when members are missing. */
export function parseOrder(response: HttpResponse): Order {
  const { status, identifiers, authorizations, finalize, certificate, replaces, error } = parseObject(response)
  if (status === 'invalid') throw new Failure('order-invalid', JSON.stringify(error ?? 'no error given'))
  if (typeof status !== 'string' || !Array.isArray(authorizations) || !Array.isArray(identifiers)) {
    throw new Failure('protocol', 'not an order object')
  }
  return {
    status,
    identifiers: identifiers as Order['identifiers'],
    authorizations: authorizations as string[],
    finalize: requireUrl(finalize, 'order.finalize'),
    certificate: typeof certificate === 'string' ? certificate : undefined,
    replaces: typeof replaces === 'string' ? replaces : undefined,
  }
}

/** @throws Failure `challenge-<problem type>` for an authorization that ended without success. */
export function parseAuthorization(response: HttpResponse): Authorization {
  const { status, challenges } = parseObject(response)
  if (typeof status !== 'string' || !Array.isArray(challenges))
    throw new Failure('protocol', 'not an authorization object')
  const authorization: Authorization = { status, challenges: challenges as Authorization['challenges'] }
  if (status !== 'pending' && status !== 'valid') throw challengeFailure(authorization)
  return authorization
}

function challengeFailure({ status, challenges }: Authorization): Failure {
  const error = challenges.find((challenge) => challenge.error)?.error
  if (!error) return new Failure(`authorization-${status}`, `the authorization is ${status} without an error`)
  return new Failure(`challenge-${shortProblemType(error.type)}`, error.detail)
}
