/** Accounts of the generator (RFC 8555 §7.3, §7.3.5). */

import { type AcmeClient, type Directory, type RequestSigner, requireUrl } from './acme.ts'
import { Failure } from './failure.ts'
import { headerPrefix, innerJws, thumbprint } from './jws.ts'
import { newKey } from './signer.ts'

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
  /** As it was downloaded. */
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
