/** Accounts of the generator (RFC 8555 §7.3). */

import { type AcmeClient, type Directory, parseObject, requireUrl } from './acme.ts'
import { Failure } from './failure.ts'
import { headerPrefix, thumbprint } from './jws.ts'
import type { EcKey, NewKey } from './signer.ts'

export interface Account {
  /** Unique in the whole run; part of the names it orders, which tells the http-01 responder whose key to name. */
  index: number
  url: string
  key: EcKey
  prefix: string
  thumbprint: string
  /** A URL the scenario prepared to read, empty when it prepared none. */
  orderUrl: string
  /** Of the list of its orders, where the server has one. */
  ordersUrl: string | undefined
  /** Renewals so far. */
  renewals: number
  /** What else scenarios have prepared: orders, the newest certificate with its certID, authorizations under way. */
  orderUrls?: string[]
  issued?: Issued
  certId?: string | undefined
  waiting?: string[]
}

/** One certificate of an account. */
export interface Issued {
  name: string
  certificateUrl: string
  /** As it was downloaded. */
  chainPem: string
}

/** @throws Failure `check-account` when the account is not new: every call brings a fresh key. */
export async function registerAccount(
  client: AcmeClient,
  directory: Directory,
  newKey: NewKey,
  index: number,
): Promise<Account> {
  const key = newKey()
  const signer = { key, prefix: headerPrefix({ jwk: key.jwk }) }
  const response = await client.post('new-account', signer, directory.newAccount, '{"termsOfServiceAgreed":true}')
  if (response.status !== 201) throw new Failure('check-account', `new-account answered ${response.status}, not 201`)

  const url = requireUrl(response.location, 'Location of new-account')
  const { orders } = parseObject(response)
  return accountOf(index, url, key, typeof orders === 'string' ? orders : undefined)
}

export function accountOf(index: number, url: string, key: EcKey, ordersUrl: string | undefined): Account {
  const prefix = headerPrefix({ kid: url })
  return { index, url, key, prefix, thumbprint: thumbprint(key.jwk), orderUrl: '', ordersUrl, renewals: 0 }
}
