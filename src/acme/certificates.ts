/** Certificates: download, revocation, and when to renew (RFC 8555 §7.4.2, §7.6; RFC 9773 §4). */

import * as z from 'zod/v4'
import { Problem } from '../shared/protocol/problem.ts'
import { renderRenewalInfo } from '../shared/protocol/renewal-info.ts'
import { type AcmeContext, type AcmeReply, acmeEndpoint, Base64url, optional } from './endpoint.ts'
import { chargeSignature, isAccount } from './gate.ts'

const PEM_CHAIN = 'application/pem-certificate-chain'

/** The certificate with one of its chains, as PEM whatever the request accepts (RFC 8555 §7.4.2, RFC 9110 §12.5.1). */
export const certificate = acmeEndpoint({
  resource: 'certificate',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id, chain }, { chains, urls }) {
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

/** By an account or by the key of the certificate (RFC 8555 §7.6). */
export const revokeCert = acmeEndpoint({
  resource: 'revokeCert',
  signedBy: 'either',
  payload: { schema: z.object({ certificate: Base64url, reason: optional(z.int()) }) },
  limit: 'revoke_cert',
  limitsOnlyJwk: true,
  async handle({ signer, payload, address, visit }, { revocation, budget }) {
    const counted = visit?.charge()
    if (counted) await counted
    const revoker = isAccount(signer) ? { requester: signer.requester } : { certificateKey: signer }
    try {
      await revocation.revoke(payload.certificate, payload.reason, revoker)
    } catch (error) {
      if (error instanceof Problem && error.type === 'unauthorized') chargeSignature(signer, address, { budget })
      throw error
    }
    return { status: 200 }
  },
})

/**
 * When a certificate should be renewed, for anyone who asks (RFC 9773 §4).
 *
 * Caches must not store the reply, so that clients see advice to renew now at their next request.
 * Each request costs one indexed read, which concurrent requests share.
 *
 * @throws Problem malformed
 */
export async function renewalInfo(certId: string, { renewal }: AcmeContext, now: Date): Promise<AcmeReply> {
  const info = await renewal.info(certId, now)
  return { status: 200, body: JSON.stringify(renderRenewalInfo(info)), retryAfterSeconds: info.retryAfterSeconds }
}
