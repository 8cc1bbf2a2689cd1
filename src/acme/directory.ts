/** GET, HEAD or POST-as-GET directory (RFC 8555 §7.1.1, §6.3). */

import type { AcmeContext } from './context.ts'
import { acmeEndpoint } from './endpoint.ts'

/** Signed, it is the same document: §6.3 asks for POST-as-GET beside GET. */
export const directory = acmeEndpoint({
  resource: 'directory',
  signedBy: 'kid',
  payload: 'none',
  async handle(_request, context) {
    return { status: 200, body: renderDirectory(context) }
  },
})

/** The text; nothing in it changes while the process lives. */
export function renderDirectory({ urls, settings }: Pick<AcmeContext, 'urls' | 'settings'>): string {
  const { directoryMeta: meta } = settings
  return JSON.stringify({
    newNonce: urls.fixed('newNonce'),
    newAccount: urls.fixed('newAccount'),
    newOrder: urls.fixed('newOrder'),
    newAuthz: urls.fixed('newAuthz'),
    revokeCert: urls.fixed('revokeCert'),
    keyChange: urls.fixed('keyChange'),
    ...(urls.renewalInfo !== undefined && { renewalInfo: urls.renewalInfo }),
    ...(Object.keys(meta).length > 0 && { meta }),
  })
}
