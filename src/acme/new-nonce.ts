/** HEAD, GET or POST-as-GET new-nonce (RFC 8555 §7.2, §6.3); the nonce is that of every reply. */

import { acmeEndpoint } from './endpoint.ts'

export const newNonce = acmeEndpoint({
  resource: 'newNonce',
  signedBy: 'kid',
  payload: 'none',
  async handle() {
    return { status: 204 }
  },
})
