/**
 * One keep-alive HTTP/1.1 connection with at most one request under way, by undici's `dispatch`. A GET took 59 to 79 µs
 * of the generator's CPU, through `request` 69 to 155, through sockets of our own 40 to 56.
 */

import { createSecureContext } from 'node:tls'
import { Client, type Dispatcher } from 'undici'

/**
 * The failure of one operation: a kind that failures are counted by, and a sentence for a reader.
 *
 * `kind` is the ACME problem type without its prefix (`badNonce`), or `http-<status>` for a reply that is no problem
 * document. Others: `connection`, `timeout`, `protocol`, and `check-<what>` for a reply that is well formed and wrong.
 */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly kind: string
  /** Seconds the server asked us to stay away; undefined when it did not. */
  readonly retryAfterSeconds: number | undefined
  /** HTTP status of the reply; undefined when there was none. */
  readonly status: number | undefined

  constructor(kind: string, detail: string, retryAfterSeconds?: number, status?: number) {
    super(detail)
    this.kind = kind
    this.retryAfterSeconds = retryAfterSeconds
    this.status = status
  }
}

/** Load that the server shed: it said when to come back. Without Retry-After it is a failure. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Failure && error.status === 503 && error.retryAfterSeconds !== undefined
}

/** Plain data that tells clients about the server they load. */
export interface Target {
  directoryUrl: string
  /** PEM of the roots to trust for TLS; undefined trusts the system's. */
  caCertificates: string | undefined
  /** Accept any TLS certificate. */
  insecure: boolean
  /** PEM of the root that issued chains must lead to; undefined when unknown. */
  rootCertificate: string | undefined
  /** Longest silence while a request is under way, and longest wait for a validation. */
  timeoutMs: number
  /** The type of challenge that clients choose. */
  challengeType: string
  /** End of the names that are ordered. */
  domainSuffix: string
  /** Scenario `renewal`: reads of renewal information before each renewal. */
  renewalReads: number
  /**
   * Contact of every account, such as `mailto:ops@example.com`: the server records notifications only for accounts with
   * one.
   */
  contact: string | undefined
}

export interface HttpResponse {
  status: number
  /** Empty when the header is absent; so for the next three. */
  contentType: string
  replayNonce: string
  location: string
  retryAfter: string
  body: Buffer
}

/** Servers end connections that rest for longer, some after ten seconds, and a request must not cross with that. */
const MAX_REST_MS = 7_000
/** No ACME object comes near this. */
const MAX_BODY_BYTES = 256 * 1024 * 1024

/** @returns a maker of connections, which share one TLS context: making one costs as much as a handshake. */
export function connectionMaker({ directoryUrl, caCertificates, insecure, timeoutMs }: Target): () => Connection {
  const secureContext = createSecureContext(caCertificates === undefined ? {} : { ca: caCertificates })
  return () =>
    new Connection(
      new Client(new URL(directoryUrl).origin, {
        // Every client of the field is another one, so no handshake resumes a session.
        connect: { secureContext, rejectUnauthorized: !insecure, maxCachedSessions: 0, timeout: timeoutMs },
        pipelining: 1,
        keepAliveTimeout: MAX_REST_MS,
        keepAliveMaxTimeout: MAX_REST_MS,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        maxResponseSize: MAX_BODY_BYTES,
      }),
    )
}

export class Connection {
  readonly #client: Client

  constructor(client: Client) {
    this.#client = client
  }

  /**
   * Sends one request and waits for its response, whatever its status.
   * A lost connection is not retried: the server may have acted, and a bench must not hide it.
   * @throws Failure `connection`, `timeout` or `protocol`
   */
  request(method: 'GET' | 'HEAD' | 'POST', path: string, body?: string): Promise<HttpResponse> {
    const headers: Record<string, string> = { 'user-agent': 'chancery-bench' }
    if (body !== undefined) headers['content-type'] = 'application/jose+json'
    return new Promise((resolve, reject) => {
      this.#client.dispatch({ method, path, headers, body: body ?? null }, new Exchange(resolve, reject))
    })
  }

  /** Whether the next request needs no handshake. */
  get isOpen(): boolean {
    return this.#client.stats.connected
  }

  close(): Promise<void> {
    return this.#client.destroy()
  }
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (response: HttpResponse) => void
  readonly #reject: (failure: Failure) => void
  readonly #chunks: Buffer[] = []
  #response: HttpResponse | undefined

  constructor(resolve: (response: HttpResponse) => void, reject: (failure: Failure) => void) {
    this.#resolve = resolve
    this.#reject = reject
  }

  onRequestStart(): void {}

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    const of = (name: string) => String(headers[name] ?? '')
    this.#response = {
      status,
      contentType: of('content-type'),
      replayNonce: of('replay-nonce'),
      location: of('location'),
      retryAfter: of('retry-after'),
      body: Buffer.alloc(0),
    }
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    const response = this.#response as HttpResponse
    response.body = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    this.#resolve(response)
  }

  onResponseError(_: unknown, error: Error & { code?: string }): void {
    this.#reject(new Failure(kindOf(error), error.message || (error.code ?? 'connection failed')))
  }
}

function kindOf({ name, code = '' }: { name: string; code?: string }): string {
  if (/^UND_ERR_(HEADERS|BODY|CONNECT)_TIMEOUT$/.test(code)) return 'timeout'
  return name === 'HTTPParserError' || code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE' ? 'protocol' : 'connection'
}
