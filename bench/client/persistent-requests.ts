/**
 * Signed requests of a client that repeats what a fault interrupted. An answer that no client should have to expect is kept
 * in `complaints`.
 */

import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { request as requestByTls, Agent as TlsAgent } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EcKey, headerPrefix, signJws } from './jws.ts'

/** An answer that no client should have to expect. */
export interface Complaint {
  url: string
  status: number
  text: string
}

export interface RequestOptions {
  directoryUrl: string
  /** For all work of this client together. */
  timeoutMs: number
  /** PEM of what it trusts for TLS. */
  trusted?: string
  /** Hears of each complaint when it comes. */
  onComplaint?(complaint: Complaint): void
}

interface Directory {
  newNonce: string
  newAccount: string
  newOrder: string
  revokeCert: string
  keyChange: string
  renewalInfo?: string
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** Nobody answered, or not in a way that helps: the caller looks at the order again. */
class Interrupted extends Error {}

/** The server does not know this account, or this order: it has lost records. */
export class Forgotten extends Error {}

const RETRY_PAUSE_MS = 200
const FIRST_POLL_MS = 50
const LONGEST_POLL_MS = 800
const REQUEST_TIMEOUT_MS = 10_000
/** Leaves a connection that nobody has used for a while before the service does, which is after 8 to 12 s. */
const POOL = { keepAlive: true, maxSockets: 64, timeout: 5_000 }
/** A connection that the service has closed is found out by using it; its requests count as interrupted. */
const plain = new Agent(POOL)

export class PersistentRequests {
  readonly complaints: string[] = []
  unavailable = 0
  mostBadNonces = 0
  readonly #key: EcKey
  readonly #options: RequestOptions
  readonly #deadline: number
  readonly #tls: TlsAgent | undefined
  readonly #nonces: string[] = []
  readonly #badNonces = new Map<string, number>()
  #directory: Directory | undefined
  #prefix: string

  constructor(key: EcKey, options: RequestOptions) {
    this.#key = key
    this.#options = options
    this.#deadline = performance.now() + options.timeoutMs
    this.#tls = options.trusted === undefined ? undefined : new TlsAgent({ ...POOL, ca: options.trusted })
    this.#prefix = headerPrefix({ jwk: key.jwk })
  }

  /** Later requests name the account (`kid`), or carry its key (`jwk`). */
  signAs(kid: string | undefined): void {
    this.#prefix = headerPrefix(kid === undefined ? { jwk: this.#key.jwk } : { kid })
  }

  /** @throws Interrupted */
  async directory(): Promise<Directory> {
    if (this.#directory) return this.#directory
    const { directoryUrl } = this.#options
    const answer = await this.#send('GET', directoryUrl)
    if (answer.status >= 400) this.#judge(directoryUrl, answer)
    if (answer.status !== 200) throw new Interrupted(`the directory answered ${answer.status}`)
    this.#directory = JSON.parse(answer.text) as Directory
    return this.#directory
  }

  /** @throws Interrupted, Forgotten */
  async get(url: string): Promise<Answer> {
    const answer = await this.#send('GET', url)
    if (answer.status < 400) return answer
    this.#judge(url, answer)
    throw new Interrupted(`${url}: ${answer.status} ${answer.text}`)
  }

  /**
   * @param accepted a type of problem that counts as success
   * @throws Interrupted for what may be repeated or looked up again, Forgotten
   */
  async post(url: string, payload: string, accepted?: string): Promise<Answer> {
    const body = signJws(this.#key, this.#prefix, await this.#nonce(), url, payload)
    const answer = await this.#send('POST', url, body)
    const fresh = answer.headers['replay-nonce']
    if (typeof fresh === 'string') this.#nonces.push(fresh)
    this.#countBadNonces(url, answer)
    if (answer.status < 400 || (accepted !== undefined && answer.text.includes(`:${accepted}"`))) return answer
    this.#judge(url, answer)
    throw new Interrupted(`${url}: ${answer.status} ${answer.text}`)
  }

  /** Repeats until it is done; what counts as done is up to `step`, which returns undefined for "not yet". */
  async persist<T>(what: string, step: () => Promise<T | undefined>): Promise<T> {
    let pollMs = FIRST_POLL_MS
    let last: unknown = 'nothing was interrupted'
    while (performance.now() < this.#deadline) {
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

  async #nonce(): Promise<string> {
    const known = this.#nonces.pop()
    if (known !== undefined) return known
    const { newNonce } = await this.directory()
    const answer = await this.#send('HEAD', newNonce)
    if (answer.status >= 400) this.#judge(newNonce, answer)
    const fresh = answer.headers['replay-nonce']
    if (typeof fresh !== 'string') throw new Interrupted('new-nonce gave none')
    return fresh
  }

  #countBadNonces(url: string, { text }: Answer): void {
    const inRow = text.includes(':badNonce"') ? (this.#badNonces.get(url) ?? 0) + 1 : 0
    this.#badNonces.set(url, inRow)
    this.mostBadNonces = Math.max(this.mostBadNonces, inRow)
  }

  /** badNonce is normal after a restart, orderNotReady after a lost reply to finalize; the rest is worth a complaint. */
  #judge(url: string, { status, headers, text }: Answer): void {
    const isOfBalancer = status >= 502 && headers['content-type'] !== 'application/problem+json'
    if ((status === 503 && headers['retry-after'] !== undefined) || isOfBalancer) {
      this.unavailable++
      return
    }
    if (status < 500 && /:(?:badNonce|orderNotReady)"/.test(text)) return
    if (status === 404 || text.includes(':accountDoesNotExist"')) throw new Forgotten(`${url}: ${status} ${text}`)
    this.complaints.push(`${url}: ${status} ${text}`)
    this.#options.onComplaint?.({ url, status, text })
  }

  /** Over node:http, because this process serves the challenges too, and `fetch` costs three times the CPU. */
  #send(method: string, url: string, body?: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const interrupted = (cause: unknown) => reject(new Interrupted(`${url}: no answer`, { cause }))
      const headers = body === undefined ? {} : { 'content-type': 'application/jose+json' }
      const options = { method, headers, timeout: REQUEST_TIMEOUT_MS }
      const receive = (response: IncomingMessage) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
        })
        response.on('error', interrupted)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
      }
      const exchange = this.#tls
        ? requestByTls(url, { ...options, agent: this.#tls }, receive)
        : request(url, { ...options, agent: plain }, receive)
      exchange.on('timeout', () => exchange.destroy(new Error('silence')))
      exchange.on('error', interrupted)
      exchange.end(body)
    })
  }
}
