/**
 * An ACME client for load and fault tests: many orders at once, and it repeats what a fault interrupted.
 *
 * It behaves as RFC 8555 asks a client to: a lost reply is answered by looking at the order again, `badNonce` by another
 * try with the new nonce, a 503 by waiting.
 */

import { X509Certificate } from 'node:crypto'
import { certIdOf } from './certificate-id.ts'
import { csrMaker, type EcKey, newKey, thumbprint } from './jws.ts'
import { PersistentRequests, type RequestOptions } from './persistent-requests.ts'

/** The certificate that a client holds in the end. */
export interface HeldCertificate {
  name: string
  orderId: string
  orderUrl: string
  chainPem: string
  leaf: X509Certificate
}

export interface PersistentClient {
  readonly thumbprint: string
  /** The account's key. */
  readonly key: EcKey
  /** The key of later certificates. */
  readonly certificateKey: EcKey
  /** Its account URL; undefined before it has one. */
  readonly kid: string | undefined
  /** For what is not below: each is signed by the account. */
  readonly requests: PersistentRequests
  /** Orders that ended invalid and were given up for a new one, by name. */
  readonly invalidOrders: readonly { name: string; orderId: string }[]
  /** How often the service said 503 with Retry-After. */
  readonly unavailable: number
  /** badNonce in a row for one request, at most. With several orders at once, an old nonce may also be another order's. */
  readonly mostBadNonces: number
  /** Answers that break the protocol or the service's promises, such as a 500. */
  readonly complaints: readonly string[]
  register(): Promise<void>
  /**
   * A certificate for this name, however many tries that takes before the deadline.
   * @throws Forgotten, or Error at the deadline
   */
  obtain(name: string): Promise<HeldCertificate>
  /** Asks when to renew (RFC 9773), however many tries that takes. @throws Forgotten, or Error for an answer without a window */
  readRenewalInfo(certificate: HeldCertificate): Promise<void>
  /** However many tries that takes. @throws Error at the deadline */
  revoke(certificate: HeldCertificate, reason?: number): Promise<void>
}

export interface PersistentClientOptions extends RequestOptions {
  contact?: string
}

/** A reason of revocation (RFC 5280 §5.3.1). */
export const KEY_COMPROMISE = 1

interface OrderObject {
  status: string
  authorizations: string[]
  finalize: string
  certificate?: string
}

interface AuthorizationObject {
  status: string
  challenges: { type: string; status: string; url: string }[]
}

export function createPersistentClient({ contact, ...options }: PersistentClientOptions): PersistentClient {
  const key: EcKey = newKey()
  let certificateKey = newKey()
  let csrFor = csrMaker(certificateKey)
  let kid: string | undefined
  const requests = new PersistentRequests(key, options)
  const invalidOrders: { name: string; orderId: string }[] = []

  return {
    thumbprint: thumbprint(key.jwk),
    key,
    requests,
    get certificateKey() {
      return certificateKey
    },
    get kid() {
      return kid
    },
    invalidOrders,
    complaints: requests.complaints,
    get unavailable() {
      return requests.unavailable
    },
    get mostBadNonces() {
      return requests.mostBadNonces
    },
    async register() {
      requests.signAs(undefined)
      kid = await requests.persist('new-account', async () => {
        const { newAccount } = await requests.directory()
        const account = { termsOfServiceAgreed: true, ...(contact !== undefined && { contact: [contact] }) }
        return (await requests.post(newAccount, JSON.stringify(account))).headers.location
      })
      requests.signAs(kid)
    },
    async obtain(name) {
      for (;;) {
        const orderUrl = await requests.persist(`new-order for ${name}`, async () => {
          const { newOrder } = await requests.directory()
          return (await requests.post(newOrder, JSON.stringify({ identifiers: [{ type: 'dns', value: name }] })))
            .headers.location
        })
        const step = () => advance(requests, name, orderUrl, csrFor)
        const end = await requests.persist(`the order of ${name} (${orderUrl})`, step)
        if (end !== 'invalid') return end
        invalidOrders.push({ name, orderId: idOf(orderUrl) })
      }
    },
    async readRenewalInfo({ name, leaf }) {
      const { text } = await requests.persist(`the renewal information of ${name}`, async () => {
        const { renewalInfo } = await requests.directory()
        return requests.get(`${renewalInfo}/${certIdOf(leaf.raw)}`)
      })
      const { start, end } =
        (JSON.parse(text) as { suggestedWindow?: { start: string; end: string } }).suggestedWindow ?? {}
      if (!(Date.parse(start ?? '') < Date.parse(end ?? ''))) throw new Error(`no window to renew ${name}: ${text}`)
    },
    async revoke({ name, leaf }, reason) {
      const certificate = leaf.raw.toString('base64url')
      await requests.persist(`the revocation of ${name}`, async () => {
        const { revokeCert } = await requests.directory()
        return requests.post(revokeCert, JSON.stringify({ certificate, reason }), 'alreadyRevoked')
      })
      // A key that is compromised is certified no more.
      if (reason !== KEY_COMPROMISE) return
      certificateKey = newKey()
      csrFor = csrMaker(certificateKey)
    },
  }
}

/** One look at the order, and the next thing it needs. */
async function advance(
  requests: PersistentRequests,
  name: string,
  orderUrl: string,
  csrFor: (name: string) => string,
): Promise<HeldCertificate | 'invalid' | undefined> {
  const order = JSON.parse((await requests.post(orderUrl, '')).text) as OrderObject
  switch (order.status) {
    case 'pending':
      for (const url of order.authorizations) await trigger(requests, url)
      return undefined
    case 'ready':
      await requests.post(order.finalize, JSON.stringify({ csr: csrFor(name) }))
      return undefined
    case 'valid': {
      const { text: chainPem } = await requests.post(order.certificate ?? '', '')
      return { name, orderId: idOf(orderUrl), orderUrl, chainPem, leaf: new X509Certificate(chainPem) }
    }
    case 'invalid':
      return 'invalid'
    default:
      return undefined
  }
}

async function trigger(requests: PersistentRequests, authorizationUrl: string): Promise<void> {
  const { text } = await requests.post(authorizationUrl, '')
  const { status, challenges } = JSON.parse(text) as AuthorizationObject
  const challenge = challenges.find(({ type }) => type === 'http-01')
  if (status === 'pending' && challenge?.status === 'pending') await requests.post(challenge.url, '{}')
}

const idOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1)
