/**
 * The table of ACME resources by name, which `protocol/urls.ts` recognises, and the two that concern
 * no object: directory and new-nonce.
 */

import type { ResourceName } from '../shared/protocol/urls.ts'
import { account, keyChange, newAccount } from './accounts.ts'
import { authorization, challenge, newAuthz } from './authorizations.ts'
import { certificate, revokeCert } from './certificates.ts'
import { type AcmeContext, type AcmeEndpoint, acmeEndpoint } from './endpoint.ts'
import { accountOrders, finalize, newOrder, order } from './orders.ts'

/**
 * RFC 8555 §7.1.1. A signed request gets the same document: RFC 8555 §6.3 requires POST-as-GET beside GET.
 */
export const directory = acmeEndpoint({
  resource: 'directory',
  signedBy: 'kid',
  payload: 'none',
  async handle(_request, context) {
    return { status: 200, body: renderDirectory(context) }
  },
})

/** Renders the directory. The text stays the same for the life of the process. */
export function renderDirectory({ urls, settings }: Pick<AcmeContext, 'urls' | 'settings'>): string {
  return JSON.stringify({
    newNonce: urls.fixed('newNonce'),
    newAccount: urls.fixed('newAccount'),
    newOrder: urls.fixed('newOrder'),
    newAuthz: urls.fixed('newAuthz'),
    revokeCert: urls.fixed('revokeCert'),
    keyChange: urls.fixed('keyChange'),
    ...(urls.renewalInfo !== undefined && { renewalInfo: urls.renewalInfo }),
    meta: settings.directoryMeta,
  })
}

/** RFC 8555 §7.2, §6.3: the nonce is that of every reply. */
export const newNonce = acmeEndpoint({
  resource: 'newNonce',
  signedBy: 'kid',
  payload: 'none',
  limit: 'new_nonce',
  async handle({ visit }) {
    await visit?.charge()
    return { status: 204 }
  },
})

/**
 * `application.ts` answers renewal information unsigned (RFC 9773 §4). CRLs are not part of ACME.
 */
export type SignedResource = Exclude<ResourceName, 'renewalInfo' | 'crl'>

/**
 * Endpoints for signed requests. `application.ts` answers unsigned GETs of the directory and of
 * nonces.
 */
export const ENDPOINTS: Record<SignedResource, AcmeEndpoint> = {
  directory,
  newNonce,
  newAccount,
  account,
  accountOrders,
  newOrder,
  order,
  finalize,
  newAuthz,
  authorization,
  challenge,
  certificate,
  revokeCert,
  keyChange,
}
