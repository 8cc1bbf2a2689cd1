/** POST revoke-cert: by an account or by the key of the certificate (RFC 8555 §7.6). */

import { z } from 'zod/v4'
import { Problem } from '../shared/protocol/problem.ts'
import { Base64url } from './base64url-member.ts'
import { acmeEndpoint, chargeSignature, isAccount } from './endpoint.ts'

export const revokeCert = acmeEndpoint({
  resource: 'revokeCert',
  signedBy: 'either',
  payload: { schema: z.object({ certificate: Base64url, reason: z.int().optional() }) },
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
