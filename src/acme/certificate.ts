/** POST cert: the certificate chain (RFC 8555 §7.4.2). */

import { acmeEndpoint } from './endpoint.ts'

export const certificate = acmeEndpoint({
  resource: 'certificate',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id }, { chains }) {
    return {
      status: 200,
      body: await chains.download(signer.requester, id),
      contentType: 'application/pem-certificate-chain',
    }
  },
})
