/** Accounts, orders and authorizations of the generator (RFC 8555 §7.1, §7.3.5). */

import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AcmeClient,
  type Directory,
  parseObject,
  type RequestSigner,
  requireUrl,
  retryAfterSeconds,
  shortProblemType,
} from './acme.ts'
import { Failure, type HttpResponse } from './http.ts'
import { headerPrefix, innerJws, newKey, thumbprint } from './jws.ts'

export interface Account extends RequestSigner {
  /** Unique in a run; its names carry it, so that the http-01 responder knows whose challenge it answers. */
  index: number
  url: string
  thumbprint: string
  /**
   * State of scenarios: a pending order, the newest certificate, the number of renewals, and whether one is under way.
   */
  orderUrl: string
  issued: Issued | undefined
  renewals: number
  isTaken: boolean
}

/** One certificate of an account. */
export interface Issued {
  name: string
  certificateUrl: string
  /** The text is kept as it was downloaded. */
  chainPem: string
  /** RFC 9773 §4.1; undefined when the scenario does not need it. */
  certId?: string
}

/** @throws Failure `check-account` when the account is not new: every call brings a fresh key */
export async function registerAccount(
  client: AcmeClient,
  directory: Directory,
  index: number,
  contact: string | undefined,
): Promise<Account> {
  const key = newKey()
  const signer = { key, prefix: headerPrefix({ jwk: key.jwk }) }
  const payload = JSON.stringify({ termsOfServiceAgreed: true, ...(contact !== undefined && { contact: [contact] }) })
  const response = await client.post('new-account', signer, directory.newAccount, payload)
  if (response.status !== 201) throw new Failure('check-account', `new-account answered ${response.status}, not 201`)
  const url = requireUrl(response.location, 'Location of new-account')
  const prefix = headerPrefix({ kid: url })
  const fresh = { orderUrl: '', issued: undefined, renewals: 0, isTaken: false }
  return { index, url, key, prefix, thumbprint: thumbprint(key.jwk), ...fresh }
}

/** A new key, signed by it inside and by the old one outside. @throws Failure; the account keeps its old key then */
export async function changeKey(client: AcmeClient, url: string, account: Account): Promise<void> {
  const key = newKey()
  const payload = JSON.stringify({ account: account.url, oldKey: account.key.jwk })
  await client.post('key-change', account, url, innerJws(key, url, payload))
  account.key = key
  account.thumbprint = thumbprint(key.jwk)
}

interface Order {
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

interface Authorization {
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

const FIRST_WAIT_MS = 10
const LONGEST_WAIT_MS = 250

/**
 * Waits for an authorization or an order (RFC 8555 §7.5.1). Retry-After only shortens a wait, or it would be measured.
 *
 * Reads until `settled` says so; `first` is the reply whose Retry-After bounds the first wait.
 * @throws Failure `timeout`, and whatever `read` throws
 */
export async function pollUntil(
  timeoutMs: number,
  first: HttpResponse,
  read: () => Promise<HttpResponse>,
  settled: (response: HttpResponse) => boolean,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  let previous = first
  for (let waitMs = FIRST_WAIT_MS; performance.now() < deadline; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    await sleep(Math.min(waitMs, (retryAfterSeconds(previous) ?? 1) * 1000))
    previous = await read()
    if (settled(previous)) return
  }
  throw new Failure('timeout', `not settled after ${timeoutMs} ms`)
}
