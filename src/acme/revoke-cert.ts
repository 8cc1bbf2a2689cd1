/** POST revoke-cert: by an account or by the key of the certificate (RFC 8555 §7.6). */

import { z } from 'zod/v4'
import { Base64url } from './base64url-member.ts'
import { acmeEndpoint, isAccount } from './endpoint.ts'

export const revokeCert = acmeEndpoint({
  resource: 'revokeCert',
  signedBy: 'either',
  payload: { schema: z.object({ certificate: Base64url, reason: z.int().optional() }) },
  async handle({ signer, payload }, { revocation }) {
    const revoker = isAccount(signer) ? { requester: signer.requester } : { certificateKey: signer }
    await revocation.revoke(payload.certificate, payload.reason, revoker)
    return { status: 200 }
  },
})
