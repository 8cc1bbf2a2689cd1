/**
 * An ACME client for load and fault tests: many orders at once, and it repeats what a fault interrupted.
 *
 * It behaves as RFC 8555 asks a client to: a lost reply is answered by looking at the order again, `badNonce` by another
 * try with the new nonce, a 503 by waiting. An answer that no client should have to expect is kept in `complaints`.
 */

import { X509Certificate } from 'node:crypto'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { csrMaker, type EcKey, headerPrefix, newKey, signJws, thumbprint } from '../../bench/client/jws.ts'

/** What a client holds in the end. */
export interface HeldCertificate {
  name: string
  orderId: string
  chainPem: string
  leaf: X509Certificate
}

export interface PersistentClient {
  readonly thumbprint: string
  /** Orders that ended invalid and were given up for a new one, by name. */
  readonly invalidOrders: readonly { name: string; orderId: string }[]
  /** How often the service said 503 with Retry-After. */
  readonly unavailable: number
  /** badNonce in a row for one request, at most. With several orders at once, an old nonce may also be another order's. */
  readonly mostBadNonces: number
  /** Answers that break the protocol or the service's promises, such as a 500. */
  readonly complaints: readonly string[]
  register(): Promise<void>
  /** A certificate for this name, however many tries that takes before the deadline. @throws Error at the deadline */
  obtain(name: string): Promise<HeldCertificate>
  /** However many tries that takes. @throws Error at the deadline */
  revoke(certificate: HeldCertificate): Promise<void>
}

export interface PersistentClientOptions {
  directoryUrl: string
  /** For all work of this client together. */
  timeoutMs: number
  contact?: string
}

interface Directory {
  newNonce: string
  newAccount: string
  newOrder: string
  revokeCert: string
}

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

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

/** Nobody answered, or not in a way that helps: the caller looks at the order again. */
class Interrupted extends Error {}

const RETRY_PAUSE_MS = 200
const FIRST_POLL_MS = 50
const LONGEST_POLL_MS = 800
const REQUEST_TIMEOUT_MS = 10_000
/** A connection that the service has closed is found out by using it; its requests count as interrupted. */
const agent = new Agent({ keepAlive: true, maxSockets: 64 })

export function createPersistentClient({
  directoryUrl,
  timeoutMs,
  contact,
}: PersistentClientOptions): PersistentClient {
  const key: EcKey = newKey()
  const subjectKey: EcKey = newKey()
  const csrFor = csrMaker(subjectKey)
  const deadline = performance.now() + timeoutMs
  const nonces: string[] = []
  const invalidOrders: { name: string; orderId: string }[] = []
  const complaints: string[] = []
  let unavailable = 0
  const badNonces = new Map<string, number>()
  let mostBadNonces = 0
  let directory: Directory | undefined
  let prefix = headerPrefix({ jwk: key.jwk })

  /** Over node:http, because this process serves the challenges too, and `fetch` costs three times the CPU. */
  function send(method: string, url: string, body?: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const interrupted = (cause: unknown) => reject(new Interrupted(`${url}: no answer`, { cause }))
      const headers = body === undefined ? {} : { 'content-type': 'application/jose+json' }
      const exchange = request(url, { method, agent, headers, timeout: REQUEST_TIMEOUT_MS }, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
        })
        response.on('error', interrupted)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
      })
      exchange.on('timeout', () => exchange.destroy(new Error('silence')))
      exchange.on('error', interrupted)
      exchange.end(body)
    })
  }

  async function nonce(): Promise<string> {
    const known = nonces.pop()
    if (known !== undefined) return known
    const { newNonce } = await readDirectory()
    const fresh = (await send('HEAD', newNonce)).headers['replay-nonce']
    if (typeof fresh !== 'string') throw new Interrupted('new-nonce gave none')
    return fresh
  }

  async function readDirectory(): Promise<Directory> {
    if (directory) return directory
    const { status, text } = await send('GET', directoryUrl)
    if (status !== 200) throw new Interrupted(`the directory answered ${status}`)
    directory = JSON.parse(text) as Directory
    return directory
  }

  /** @param accepted a problem that says it is done. @throws Interrupted for what may be repeated or looked up again */
  async function post(url: string, payload: string, accepted?: string): Promise<Answer> {
    const answer = await send('POST', url, signJws(key, prefix, await nonce(), url, payload))
    const fresh = answer.headers['replay-nonce']
    if (typeof fresh === 'string') nonces.push(fresh)
    countBadNonces(url, answer)
    if (answer.status < 400 || (accepted !== undefined && answer.text.includes(`:${accepted}"`))) return answer
    judge(url, answer)
    throw new Interrupted(`${url}: ${answer.status} ${answer.text}`)
  }

  function countBadNonces(url: string, { text }: Answer): void {
    const inRow = text.includes(':badNonce"') ? (badNonces.get(url) ?? 0) + 1 : 0
    badNonces.set(url, inRow)
    mostBadNonces = Math.max(mostBadNonces, inRow)
  }

  /** badNonce is normal after a restart, orderNotReady after a lost reply to finalize; the rest is worth a complaint. */
  function judge(url: string, { status, headers, text }: Answer): void {
    if (status === 503 && headers['retry-after'] !== undefined) {
      unavailable++
      return
    }
    if (status < 500 && /:(?:badNonce|orderNotReady)"/.test(text)) return
    complaints.push(`${url}: ${status} ${text}`)
  }

  /** Repeats until it is done; what counts as done is up to `step`, which returns undefined for "not yet". */
  async function persist<T>(what: string, step: () => Promise<T | undefined>): Promise<T> {
    let pollMs = FIRST_POLL_MS
    let last: unknown = 'nothing was interrupted'
    while (performance.now() < deadline) {
      try {
        const result = await step()
        if (result !== undefined) return result
        await sleep(pollMs)
        pollMs = Math.min(LONGEST_POLL_MS, pollMs * 2)
      } catch (error) {
        if (!(error instanceof Interrupted)) throw error
        last = error.message
        await sleep(RETRY_PAUSE_MS)
      }
    }
    throw new Error(`${what} was not done in time; the last interruption: ${String(last)}`)
  }

  async function trigger(authorizationUrl: string): Promise<void> {
    const { status, challenges } = JSON.parse((await post(authorizationUrl, '')).text) as AuthorizationObject
    const challenge = challenges.find(({ type }) => type === 'http-01')
    if (status === 'pending' && challenge?.status === 'pending') await post(challenge.url, '{}')
  }

  /** One look at the order, and the next thing it needs. */
  async function advance(name: string, orderUrl: string): Promise<HeldCertificate | 'invalid' | undefined> {
    const order = JSON.parse((await post(orderUrl, '')).text) as OrderObject
    switch (order.status) {
      case 'pending':
        for (const url of order.authorizations) await trigger(url)
        return undefined
      case 'ready':
        await post(order.finalize, JSON.stringify({ csr: csrFor(name) }))
        return undefined
      case 'valid': {
        const { text: chainPem } = await post(order.certificate ?? '', '')
        return { name, orderId: idOf(orderUrl), chainPem, leaf: new X509Certificate(chainPem) }
      }
      case 'invalid':
        return 'invalid'
      default:
        return undefined
    }
  }

  return {
    thumbprint: thumbprint(key.jwk),
    invalidOrders,
    complaints,
    get unavailable() {
      return unavailable
    },
    get mostBadNonces() {
      return mostBadNonces
    },
    async register() {
      const kid = await persist('new-account', async () => {
        const { newAccount } = await readDirectory()
        const account = { termsOfServiceAgreed: true, ...(contact !== undefined && { contact: [contact] }) }
        return (await post(newAccount, JSON.stringify(account))).headers.location
      })
      prefix = headerPrefix({ kid })
    },
    async obtain(name) {
      for (;;) {
        const orderUrl = await persist(`new-order for ${name}`, async () => {
          const { newOrder } = await readDirectory()
          return (await post(newOrder, JSON.stringify({ identifiers: [{ type: 'dns', value: name }] }))).headers
            .location
        })
        const end = await persist(`the order of ${name} (${orderUrl})`, () => advance(name, orderUrl))
        if (end !== 'invalid') return end
        invalidOrders.push({ name, orderId: idOf(orderUrl) })
      }
    },
    async revoke({ name, leaf }) {
      const certificate = leaf.raw.toString('base64url')
      await persist(`the revocation of ${name}`, async () => {
        const { revokeCert } = await readDirectory()
        return post(revokeCert, JSON.stringify({ certificate }), 'alreadyRevoked')
      })
    },
  }
}

const idOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1)
