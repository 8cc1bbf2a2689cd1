/** GET, HEAD or POST-as-GET directory (RFC 8555 §7.1.1, §6.3). */

import type { AcmeContext } from './context.ts'
import { acmeEndpoint } from './endpoint.ts'

/** A signed request gets the same document: RFC 8555 §6.3 requires POST-as-GET beside GET. */
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
