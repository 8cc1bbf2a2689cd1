/** POST cert: the certificate with one of its chains (RFC 8555 §7.4.2). */

import { isAcceptable } from '../http/accept.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { acmeEndpoint } from './endpoint.ts'

const PEM_CHAIN = 'application/pem-certificate-chain'

export const certificate = acmeEndpoint({
  resource: 'certificate',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id, chain, accept }, { chains, urls }) {
    if (!isAcceptable(PEM_CHAIN, accept))
      throw new Problem('malformed', `a certificate is sent as ${PEM_CHAIN} only`, { status: 406 })
    const { pem, chainCount } = await chains.download(signer.requester, id, chain)
    const others = Array.from({ length: chainCount }, (_, number) => number).filter((number) => number !== chain)
    return {
      status: 200,
      body: pem,
      contentType: PEM_CHAIN,
      links: others.map((number) => `<${urls.certificateChain(id, number)}>;rel="alternate"`),
    }
  },
})
