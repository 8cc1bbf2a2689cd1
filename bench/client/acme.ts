/** One ACME client of the generator: signed and plain requests over one connection, each timed under a step's name. */

import type { RunStats } from '../measure/stats.ts'
import type { Connection, Target } from './connection.ts'
import { Failure } from './failure.ts'
import { signJws } from './jws.ts'
import type { NoncePool } from './nonces.ts'
import type { HttpResponse } from './response-parser.ts'
import type { EcKey } from './signer.ts'

/** The URLs the scenarios use (RFC 8555 §7.1.1). */
export interface Directory {
  newNonce: string
  newAccount: string
  newOrder: string
  /** Absent where the server has it not. */
  keyChange?: string
  renewalInfo?: string
}

/** What signs a request: a key, and the protected header up to the nonce (`headerPrefix`). */
export interface RequestSigner {
  key: EcKey
  prefix: string
}

export class AcmeClient {
  readonly #connection: Connection
  readonly #origin: string
  readonly #nonces: NoncePool
  readonly #stats: RunStats
  #newNonceUrl = ''

  constructor(connection: Connection, target: Target, nonces: NoncePool, stats: RunStats) {
    this.#connection = connection
    this.#origin = target.origin
    this.#nonces = nonces
    this.#stats = stats
  }

  /** @throws Failure `protocol` when a URL the scenarios need is missing. */
  async readDirectory(url: string): Promise<Directory> {
    const directory = parseObject(await this.get('directory', url))
    const need = (name: string) => requireUrl(directory[name], `directory.${name}`)
    const { keyChange, renewalInfo } = directory
    return this.useDirectory({
      newNonce: need('newNonce'),
      newAccount: need('newAccount'),
      newOrder: need('newOrder'),
      ...(typeof keyChange === 'string' && { keyChange }),
      ...(typeof renewalInfo === 'string' && { renewalInfo }),
    })
  }

  useDirectory(directory: Directory): Directory {
    this.#newNonceUrl = directory.newNonce
    return directory
  }

  async get(step: string, url: string): Promise<HttpResponse> {
    return await this.#timed(step, 'GET', url)
  }

  /** @throws Failure `check-nonce` when the reply has none (RFC 8555 §7.2). */
  async newNonce(url: string): Promise<string> {
    const response = await this.#timed('new-nonce', 'HEAD', url)
    if (response.replayNonce === '') throw new Failure('check-nonce', 'new-nonce answered without Replay-Nonce')
    return response.replayNonce
  }

  /**
   * One signed request; an answer `badNonce` is tried again once, as clients do, and counted (RFC 8555 §6.5).
   * @param payload JSON text; empty for POST-as-GET.
   * @throws Failure for every status of 400 and above.
   */
  async post(step: string, signer: RequestSigner, url: string, payload: string): Promise<HttpResponse> {
    const startedAt = performance.now()
    let response = await this.#postOnce(signer, url, payload)
    if (response.status === 400 && failureOf(response).kind === 'badNonce') {
      this.#stats.badNonceRetries++
      response = await this.#postOnce(signer, url, payload)
    }
    return this.#recorded(step, startedAt, response)
  }

  /** Whether its next request needs no handshake. */
  get isConnected(): boolean {
    return this.#connection.isOpen
  }

  close(): void {
    this.#connection.close()
  }

  async #postOnce(signer: RequestSigner, url: string, payload: string): Promise<HttpResponse> {
    const nonce = this.#nonces.take() ?? (await this.newNonce(this.#newNonceUrl))
    this.#stats.signedRequests++
    const body = signJws(signer.key, signer.prefix, nonce, url, payload)
    const response = await this.#connection.request('POST', this.#pathOf(url), body)
    this.#nonces.put(response.replayNonce)
    return response
  }

  async #timed(step: string, method: 'GET' | 'HEAD', url: string): Promise<HttpResponse> {
    const startedAt = performance.now()
    return this.#recorded(step, startedAt, await this.#connection.request(method, this.#pathOf(url)))
  }

  /** A step is what was done; how fast the server refuses is kept apart. @throws Failure */
  #recorded(step: string, startedAt: number, response: HttpResponse): HttpResponse {
    const ms = performance.now() - startedAt
    if (response.status === 503) this.#stats.recordRefusedStep(step, ms)
    else this.#stats.recordStep(step, ms)
    return requireSuccess(response)
  }

  #pathOf(url: string): string {
    if (url.startsWith(this.#origin) && url.charCodeAt(this.#origin.length) === 0x2f)
      return url.slice(this.#origin.length)
    throw new Failure('check-url', `${url} is not under ${this.#origin}, where the directory is`)
  }
}

/** Retry-After in its form of seconds; a date or nothing gives undefined. */
export function retryAfterSeconds(response: HttpResponse): number | undefined {
  return /^\d{1,9}$/.test(response.retryAfter) ? Number(response.retryAfter) : undefined
}

/** @throws Failure `protocol` when the body is no JSON object. */
export function parseObject(response: HttpResponse): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(response.body)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // Falls through to the one sentence that covers both cases.
  }
  throw new Failure('protocol', `expected a JSON object, got ${response.body.slice(0, 60)}`)
}

/** @throws Failure `protocol`. */
export function requireUrl(value: unknown, what: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw new Failure('protocol', `${what} is missing`)
}

/** `urn:ietf:params:acme:error:badCSR` becomes `badCSR`; anything else stays as it is. */
export function shortProblemType(type: string): string {
  return type.replace('urn:ietf:params:acme:error:', '')
}

function requireSuccess(response: HttpResponse): HttpResponse {
  if (response.status >= 200 && response.status < 300) return response
  throw failureOf(response)
}

function failureOf(response: HttpResponse): Failure {
  const retryAfter = retryAfterSeconds(response)
  if (response.contentType.startsWith('application/problem+json')) {
    const { type, detail } = parseObject(response)
    if (typeof type === 'string')
      return new Failure(shortProblemType(type), String(detail ?? ''), retryAfter, response.status)
  }
  return new Failure(`http-${response.status}`, response.body.slice(0, 120), retryAfter, response.status)
}
