/** GET renewalInfo: when a certificate should be renewed, for anyone who asks (RFC 9773 §4). */

import { renderRenewalInfo } from '../shared/protocol/renewal-info.ts'
import type { AcmeContext } from './context.ts'
import type { AcmeReply } from './endpoint.ts'

/**
 * Not to be kept by caches, like every other response of this interface: advice to renew now is then seen at the next look.
 * It costs one indexed read, shared with the requests that arrive meanwhile.
 * @throws Problem malformed
 */
export async function renewalInfo(certId: string, { renewal }: AcmeContext, now: Date): Promise<AcmeReply> {
  const info = await renewal.info(certId, now)
  return { status: 200, body: JSON.stringify(renderRenewalInfo(info)), retryAfterSeconds: info.retryAfterSeconds }
}
