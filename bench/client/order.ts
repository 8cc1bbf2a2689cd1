/** Orders and authorizations as the generator reads them (RFC 8555 §7.1.3, §7.1.4). */

import type { Account } from './account.ts'
import { type AcmeClient, type Directory, parseObject, requireUrl, shortProblemType } from './acme.ts'
import { Failure } from './failure.ts'
import type { HttpResponse } from './http.ts'

export interface Order {
  status: string
  identifiers: { type: string; value: string }[]
  authorizations: string[]
  finalize: string
  /** Undefined until the order is valid. */
  certificate: string | undefined
}

/** A challenge object as the server shows it (RFC 8555 §7.1.5). */
export type Challenge = { type: string; url: string; error?: { type: string; detail: string } } & Readonly<
  Record<string, unknown>
>

export interface Authorization {
  status: string
  challenges: Challenge[]
}

/**
 * @param replaces certID of the certificate that the new one follows (RFC 9773 §5)
 * @throws Failure `check-order` when the order has other names or another `replaces`
 */
export async function createOrder(
  client: AcmeClient,
  { newOrder }: Directory,
  account: Account,
  name: string,
  replaces?: string,
): Promise<{ url: string; order: Order }> {
  const payload = JSON.stringify({ identifiers: [{ type: 'dns', value: name }], replaces })
  const response = await client.post('new-order', account, newOrder, payload)
  const order = parseOrder(response)
  if (response.status !== 201 || order.identifiers.length !== 1 || order.identifiers[0]?.value !== name)
    throw new Failure('check-order', `asked for ${name}, got ${response.status} ${JSON.stringify(order.identifiers)}`)
  const said = parseObject(response)['replaces']
  if (said !== replaces) throw new Failure('check-order', `the order is to replace ${replaces}, and says ${said}`)
  return { url: requireUrl(response.location, 'Location of new-order'), order }
}

/** @throws Failure `order-invalid` with the order's own error, `protocol` when members are missing */
export function parseOrder(response: HttpResponse): Order {
  const { status, identifiers, authorizations, finalize, certificate, error } = parseObject(response)
  if (status === 'invalid') throw new Failure('order-invalid', JSON.stringify(error ?? 'no error given'))
  if (typeof status !== 'string' || !Array.isArray(authorizations) || !Array.isArray(identifiers))
    throw new Failure('protocol', 'not an order object')
  return {
    status,
    identifiers,
    authorizations,
    finalize: requireUrl(finalize, 'order.finalize'),
    certificate: typeof certificate === 'string' ? certificate : undefined,
  }
}

/** @throws Failure `challenge-<problem type>` for an authorization that ended without success */
export function parseAuthorization(response: HttpResponse): Authorization {
  const { status, challenges } = parseObject(response)
  if (typeof status !== 'string' || !Array.isArray(challenges))
    throw new Failure('protocol', 'not an authorization object')
  if (status === 'pending' || status === 'valid') return { status, challenges }
  const { error } = (challenges as Challenge[]).find((challenge) => challenge.error) ?? {}
  if (error) throw new Failure(`challenge-${shortProblemType(error.type)}`, error.detail)
  throw new Failure(`authorization-${status}`, `the authorization is ${status} without an error`)
}
