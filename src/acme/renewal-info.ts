/** GET renewalInfo: when a certificate should be renewed, for anyone who asks (RFC 9773 §4). */

import { renderRenewalInfo } from '../shared/protocol/renewal-info.ts'
import type { AcmeContext } from './context.ts'
import type { AcmeReply } from './endpoint.ts'

/**
 * Caches must not store the reply, so that clients see advice to renew now at their next request.
 * Each request costs one indexed read, which concurrent requests share.
 *
 * @throws Problem malformed
 */
export async function renewalInfo(certId: string, { renewal }: AcmeContext, now: Date): Promise<AcmeReply> {
  const info = await renewal.info(certId, now)
  return { status: 200, body: JSON.stringify(renderRenewalInfo(info)), retryAfterSeconds: info.retryAfterSeconds }
}
