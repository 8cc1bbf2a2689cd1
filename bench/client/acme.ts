/** One ACME client of the generator: signed and plain requests over one connection, each timed under a step's name. */

import type { RunStats } from '../measure/stats.ts'
import type { Connection, HttpResponse } from './http.ts'
import { Failure } from './http.ts'
import type { EcKey } from './jws.ts'
import { signJws } from './jws.ts'

/** The URLs the scenarios use (RFC 8555 §7.1.1). */
export interface Directory {
  newNonce: string
  newAccount: string
  newOrder: string
  /** Absent where the server has it not. */
  keyChange?: string
  renewalInfo?: string
}

/** The key that signs a request, and the protected header up to the nonce (`headerPrefix`). */
export interface RequestSigner {
  key: EcKey
  prefix: string
}

/** Shared by all clients of a process. */
export interface ClientSettings {
  /** The start of every URL, `https://host:port`. */
  origin: string
  /** Nonces in hand; the freshest is used first, because servers forget the oldest first. */
  nonces: string[]
  stats: RunStats
  newNonceUrl: string
}

/** More than any number of requests under way would only grow stale. */
const MOST_NONCES = 10_000

export class AcmeClient {
  readonly #connection: Connection
  readonly #settings: ClientSettings

  constructor(connection: Connection, settings: ClientSettings) {
    this.#connection = connection
    this.#settings = settings
  }

  /** @throws Failure `protocol` when a URL the scenarios need is missing */
  async readDirectory(url: string): Promise<Directory> {
    const directory = parseObject(await this.get('directory', url))
    const need = (name: string) => requireUrl(directory[name], `directory.${name}`)
    const { keyChange, renewalInfo } = directory
    this.#settings.newNonceUrl = need('newNonce')
    return {
      newNonce: need('newNonce'),
      newAccount: need('newAccount'),
      newOrder: need('newOrder'),
      ...(typeof keyChange === 'string' && { keyChange }),
      ...(typeof renewalInfo === 'string' && { renewalInfo }),
    }
  }

  async get(step: string, url: string): Promise<HttpResponse> {
    return await this.#timed(step, 'GET', url)
  }

  /** @throws Failure `check-nonce` when the reply has none (RFC 8555 §7.2) */
  async newNonce(url: string): Promise<string> {
    const { replayNonce } = await this.#timed('new-nonce', 'HEAD', url)
    if (replayNonce === '') throw new Failure('check-nonce', 'new-nonce answered without Replay-Nonce')
    return replayNonce
  }

  /**
   * One signed request; an answer `badNonce` is tried again once, as clients do, and counted (RFC 8555 §6.5).
   * @param payload JSON text; empty for POST-as-GET
   * @throws Failure for every status of 400 and above
   */
  async post(step: string, signer: RequestSigner, url: string, payload: string): Promise<HttpResponse> {
    const startedAt = performance.now()
    let response = await this.#postOnce(signer, url, payload)
    if (response.status === 400 && failureOf(response).kind === 'badNonce') {
      this.#settings.stats.counts.badNonceRetries++
      response = await this.#postOnce(signer, url, payload)
    }
    return this.#recorded(step, startedAt, response)
  }

  get isConnected(): boolean {
    return this.#connection.isOpen
  }

  async #postOnce(signer: RequestSigner, url: string, payload: string): Promise<HttpResponse> {
    const { nonces, stats, newNonceUrl } = this.#settings
    const nonce = nonces.pop() ?? (await this.newNonce(newNonceUrl))
    stats.counts.signedRequests++
    const body = signJws(signer.key, signer.prefix, nonce, url, payload)
    const response = await this.#connection.request('POST', this.#pathOf(url), body)
    if (response.replayNonce !== '' && nonces.length < MOST_NONCES) nonces.push(response.replayNonce)
    return response
  }

  async #timed(step: string, method: 'GET' | 'HEAD', url: string): Promise<HttpResponse> {
    const startedAt = performance.now()
    return this.#recorded(step, startedAt, await this.#connection.request(method, this.#pathOf(url)))
  }

  /** How fast the server refuses is kept apart from how fast it serves. @throws Failure */
  #recorded(step: string, startedAt: number, response: HttpResponse): HttpResponse {
    const { status } = response
    this.#settings.stats.recordStep(status === 503 ? `503 to ${step}` : step, performance.now() - startedAt)
    if (status >= 200 && status < 300) return response
    throw failureOf(response)
  }

  #pathOf(url: string): string {
    const { origin } = this.#settings
    if (url.startsWith(`${origin}/`)) return url.slice(origin.length)
    throw new Failure('check-url', `${url} is not under ${origin}, where the directory is`)
  }
}

/** Retry-After in its form of seconds; a date or nothing gives undefined. */
export function retryAfterSeconds({ retryAfter }: HttpResponse): number | undefined {
  return /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined
}

/** @throws Failure `protocol` when the body is no JSON object */
export function parseObject({ body }: HttpResponse): Record<string, unknown> {
  const text = body.toString()
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // The sentence below covers both.
  }
  throw new Failure('protocol', `expected a JSON object, got ${text.slice(0, 60)}`)
}

/** @throws Failure `protocol` */
export function requireUrl(value: unknown, what: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw new Failure('protocol', `${what} is missing`)
}

/** `urn:ietf:params:acme:error:badCSR` becomes `badCSR`; anything else stays as it is. */
export function shortProblemType(type: string): string {
  return type.replace('urn:ietf:params:acme:error:', '')
}

function failureOf(response: HttpResponse): Failure {
  const { status, contentType, body } = response
  const retryAfter = retryAfterSeconds(response)
  if (contentType.startsWith('application/problem+json')) {
    const { type, detail } = parseObject(response)
    if (typeof type === 'string') return new Failure(shortProblemType(type), String(detail ?? ''), retryAfter, status)
  }
  return new Failure(`http-${status}`, body.toString('utf8', 0, 120), retryAfter, status)
}
