/**
 * Orders: new-order, order, finalize and the list of an account (RFC 8555 §7.4, §7.1.2.1). Their certificates: download,
 * revocation, and when to renew (§7.4.2, §7.6; RFC 9773 §4).
 */

import * as z from 'zod/v4'
import type { Order } from '../domain/records.ts'
import { boundedList } from '../shared/lib/bounded.ts'
import { decodeBase64url } from '../shared/lib/encoding.ts'
import { isUuid } from '../shared/lib/uuid.ts'
import { renderIdentifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderRenewalInfo } from '../shared/protocol/renewal-info.ts'
import { parseTimestamp, renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import { requireOwnAccount } from './accounts.ts'
import {
  type AcmeContext,
  type AcmeReply,
  type AcmeSettings,
  acmeEndpoint,
  Identifier,
  optional,
  Text,
} from './endpoint.ts'
import { chargeSignature, isAccount } from './gate.ts'

const Timestamp = Text.transform((text, check) => {
  const at = parseTimestamp(text)
  if (!at) check.addIssue({ code: 'custom', message: 'must be an RFC 3339 date-time' })
  return at ?? z.NEVER
})

/** A payload member that is base64url (RFC 8555 §6.1): no padding, one spelling. */
const Base64url = z
  .string()
  .max(1_000_000)
  .transform((text, check) => {
    const bytes = decodeBase64url(text)
    if (!bytes) check.addIssue({ code: 'custom', message: 'must be base64url without padding' })
    return bytes ?? z.NEVER
  })

/** RFC 8555 §7.4, RFC 9773 §5, draft-ietf-acme-profiles. */
export const newOrder = acmeEndpoint({
  resource: 'newOrder',
  signedBy: 'kid',
  limit: 'new_order',
  pausedInMaintenance: true,
  needsCurrentTerms: true,
  // RFC 9773 §5 exempts renewals. Only the handler can tell whether the order is a renewal.
  mayBeExempt: (payload) => payload.includes('"replaces"'),
  payload: {
    schema: z.object({
      // No `max_identifiers_per_order` is larger.
      identifiers: boundedList(Identifier, 1_000),
      notBefore: optional(Timestamp),
      notAfter: optional(Timestamp),
      profile: optional(Text),
      replaces: optional(z.unknown()),
    }),
  },
  async handle({ signer, payload, visit, address, requestId, now }, { ordering, urls, settings }) {
    const { identifiers, notBefore, notAfter, profile, replaces } = payload
    const order = await ordering.createOrder(
      { ...signer, address, requestId, visit },
      {
        identifiers,
        ...(notBefore && { notBefore }),
        ...(notAfter && { notAfter }),
        ...(profile !== undefined && { profile }),
        // A value of another type is refused as a wrong certID is: clients know that refusal.
        ...(replaces !== undefined && { replaces: typeof replaces === 'string' ? replaces : '' }),
      },
      now,
    )
    // An existing order also gets 201, because clients expect it; Location names the order.
    const location = urls.numbered('order', order.id)
    return { status: 201, body: renderOrder(order, urls, settings), location, made: { orderId: order.id } }
  },
})

export const order = acmeEndpoint({
  resource: 'order',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id }, context) {
    return orderReply(await context.ordering.findOrder(signer.requester, id), context)
  },
})

function orderReply(found: Order, { urls, settings }: AcmeContext): AcmeReply {
  return {
    status: 200,
    body: renderOrder(found, urls, settings),
    location: urls.numbered('order', found.id),
    ...(found.status === 'processing' && { retryAfterSeconds: settings.orderRetryAfterSeconds }),
  }
}

export const finalize = acmeEndpoint({
  resource: 'finalize',
  signedBy: 'kid',
  payload: { schema: z.object({ csr: Base64url }) },
  async handle({ signer, id, payload, accountPath, now, isGone }, context) {
    const counted = context.limits.charge([{ category: 'finalize', subject: signer.account.id }])
    if (counted) await counted
    try {
      const order = await context.finalization.finalize(signer, {
        orderId: id,
        csr: payload.csr,
        accountPath,
        now,
        isGone,
      })
      return orderReply(order, context)
    } catch (error) {
      if (error instanceof Problem && error.type === 'orderNotReady')
        throw new Problem(error.type, error.message, { location: context.urls.numbered('order', id) })
      throw error
    }
  },
})

/** RFC 8555 §7.1.2.1; docs/decisions/orders-list.md. */
export const accountOrders = acmeEndpoint({
  resource: 'accountOrders',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id, query }, { ordering, limits, urls, settings }) {
    requireOwnAccount(signer, id)
    const cursor = new URLSearchParams(query).get('cursor') ?? undefined
    if (cursor !== undefined && !isUuid(cursor)) throw new Problem('malformed', 'the cursor is not one of this list')
    await limits.charge([{ category: 'account_orders', subject: id }])
    const page = await ordering.listOrders(signer.requester, cursor, settings.ordersPageSize)
    const next = `${urls.numbered('accountOrders', id)}?cursor=${page.next}`
    return {
      status: 200,
      body: JSON.stringify({ orders: page.ids.map((orderId) => urls.numbered('order', orderId)) }),
      ...(page.next !== undefined && { links: [`<${next}>;rel="next"`] }),
    }
  },
})

const json = JSON.stringify

/**
 * An order as clients see it (RFC 8555 §7.1.3; docs/decisions/json-members.md), written as text: building an object and
 * serializing it takes three times as long. Members that do not apply are absent, never null.
 */
export function renderOrder(order: Order, urls: Urls, settings: Pick<AcmeSettings, 'directoryMeta'>): string {
  const { identifiers, authorizationIds, notBefore, notAfter, replaces, error, certificateId } = order
  const authorizations = authorizationIds.map((id) => json(urls.numbered('authorization', id)))
  return (
    `{"status":"${order.status}","expires":"${renderTimestamp(order.expiresAt)}"` +
    `,"identifiers":[${identifiers.map(renderIdentifier).join()}]` +
    (notBefore ? `,"notBefore":"${renderTimestamp(notBefore)}"` : '') +
    (notAfter ? `,"notAfter":"${renderTimestamp(notAfter)}"` : '') +
    // The profile is always shown, even if the server chose it. A server without profiles omits it.
    (settings.directoryMeta.profiles ? `,"profile":${json(order.profile)}` : '') +
    (replaces === undefined ? '' : `,"replaces":${json(replaces)}`) +
    (error ? `,"error":${json(error)}` : '') +
    `,"authorizations":[${authorizations.join()}],"finalize":${json(urls.numbered('finalize', order.id))}` +
    (certificateId === undefined ? '' : `,"certificate":${json(urls.numbered('certificate', certificateId))}`) +
    '}'
  )
}

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
