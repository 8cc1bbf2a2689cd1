/** HEAD, GET or POST-as-GET new-nonce (RFC 8555 §7.2, §6.3); the nonce is that of every reply. */

import { acmeEndpoint } from './endpoint.ts'

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
