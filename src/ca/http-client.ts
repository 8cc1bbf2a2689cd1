/**
 * HTTP requests to a CA that the operator has named: bounded bodies and times, no redirects.
 *
 * An answer of any status is a result. `Unreachable` means that no whole answer came, so the other
 * side may have acted or not.
 */

import http, { type ClientRequestArgs, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { isIPv6, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type ConnectionOptions, connect, rootCertificates } from 'node:tls'

export interface HttpClientOptions {
  /** PEM certificates trusted in addition to those that come with Node.js. */
  extraRoots?: string | undefined
  /** PEM of the client certificate with its chain, and of its key. */
  client?: { certificate: string; key: string } | undefined
  /** False accepts any certificate of the other side. */
  verify: boolean
  /** `http://user:password@host:port` of a forward proxy. */
  proxyUrl?: string | undefined
  /** Connections to one host; further requests wait for one. */
  maxConnections: number
}

interface HttpRequest {
  method: 'GET' | 'HEAD' | 'POST'
  url: string
  headers?: Readonly<Record<string, string>>
  body?: string
  /** A longer body ends the request. */
  maxBytes: number
  /** From the first byte sent to the last one received. A wait for a free connection has as long. */
  timeoutMs: number
  signal?: AbortSignal | undefined
}

export interface HttpAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

/** No whole answer came. The message names no URL, since one may hold a secret. */
export class Unreachable extends Error {
  /** False when the request never got a connection, so the other side has not heard it. */
  readonly hadConnection: boolean

  constructor(message: string, cause?: unknown, hadConnection = true) {
    super(message, { cause })
    this.name = 'Unreachable'
    this.hadConnection = hadConnection
  }
}

export interface HttpClient {
  /** @throws Unreachable; the reason of `signal` when that was aborted */
  send(request: HttpRequest): Promise<HttpAnswer>
  close(): void
}

/**
 * A kept connection that the other side has closed is noticed by using it. Only what changes nothing
 * is then sent again: a POST may have been read.
 */
const STALE_CONNECTION = new Set(['ECONNRESET', 'EPIPE'])
/** Shorter than servers keep a connection: Node.js and its like 5 s. */
const IDLE_MS = 3_000

export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { maxConnections, proxyUrl } = options
  const proxy = proxyUrl === undefined ? undefined : new URL(proxyUrl)
  const pool = { keepAlive: true, maxSockets: maxConnections, timeout: IDLE_MS }
  const tls = tlsOptions(options)
  const plainAgent = new http.Agent(pool)
  const tlsAgent = proxy ? new TunnelAgent(proxy, { ...pool, ...tls }) : new https.Agent({ ...pool, ...tls })

  function open(request: HttpRequest, signal: AbortSignal, take: (answer: IncomingMessage) => void) {
    const { method, headers, body } = request
    const url = new URL(request.url)
    const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
    const common = { method, signal, headers: { 'User-Agent': 'chancery', ...headers, ...length } }
    if (url.protocol === 'https:') return https.request(url, { ...common, agent: tlsAgent }, take)
    if (!proxy) return http.request(url, { ...common, agent: plainAgent }, take)
    // RFC 9112 §3.2.2: a proxy is given the whole URL.
    const viaProxy = { ...common, agent: plainAgent, path: url.href }
    return http.request(
      proxy,
      { ...viaProxy, headers: { ...common.headers, Host: url.host, ...proxyHeaders(proxy) } },
      take,
    )
  }

  function exchange(request: HttpRequest, signal: AbortSignal, isRepeated: boolean, limit: Limit): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const outgoing = open(request, signal, (answer) => {
        collect(answer, request.maxBytes).then(
          (body) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }),
          (error) => {
            outgoing.destroy()
            reject(error)
          },
        )
      })
      outgoing.once('socket', () => limit.connected())
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        const isStale = outgoing.reusedSocket && STALE_CONNECTION.has(error.code ?? '')
        if (isStale && !isRepeated && request.method !== 'POST') resolve(exchange(request, signal, true, limit))
        else reject(error)
      })
      outgoing.end(request.body)
    })
  }

  return {
    async send(request) {
      const limit = createLimit(request.timeoutMs)
      const signal = request.signal ? AbortSignal.any([request.signal, limit.signal]) : limit.signal
      try {
        return await exchange(request, signal, false, limit)
      } catch (error) {
        request.signal?.throwIfAborted()
        const hadConnection = limit.hadConnection()
        if (limit.signal.aborted) {
          const missing = hadConnection ? 'no answer' : 'no free connection'
          throw new Unreachable(`${missing} within ${request.timeoutMs / 1000} seconds`, undefined, hadConnection)
        }
        if (error instanceof Unreachable) throw error
        const { code, message } = error as NodeJS.ErrnoException
        throw new Unreachable(code ?? message, error, hadConnection)
      } finally {
        limit.end()
      }
    },
    close() {
      plainAgent.destroy()
      tlsAgent.destroy()
    },
  }
}

type Limit = ReturnType<typeof createLimit>

/** Starts again with the connection: a request that waited for one is not cut off while it is sent. */
function createLimit(timeoutMs: number) {
  const overdue = new AbortController()
  const start = () => setTimeout(() => overdue.abort(), timeoutMs)
  let timer = start()
  let hadConnection = false
  return {
    signal: overdue.signal,
    hadConnection: () => hadConnection,
    connected() {
      hadConnection = true
      clearTimeout(timer)
      timer = start()
    },
    end: () => clearTimeout(timer),
  }
}

function tlsOptions({ extraRoots, client, verify }: HttpClientOptions): https.AgentOptions {
  return {
    minVersion: 'TLSv1.2',
    rejectUnauthorized: verify,
    ...(extraRoots !== undefined && { ca: [...rootCertificates, extraRoots] }),
    ...(client && { cert: client.certificate, key: client.key }),
  }
}

async function collect(answer: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new Unreachable(`the answer has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** @returns milliseconds from now; undefined without a valid header */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs)
}

const CONNECT_TIMEOUT_MS = 10_000

type Done = (error: Error | null, stream: Duplex) => void
const NO_STREAM = undefined as unknown as Duplex

class TunnelAgent extends https.Agent {
  readonly #proxy: URL

  constructor(proxy: URL, options: https.AgentOptions) {
    super(options)
    this.#proxy = proxy
  }

  /** Node.js calls it for each new connection. Without a stream it waits for `done`. */
  override createConnection(options: ClientRequestArgs, done: Done = () => undefined): Duplex {
    const { host, port } = options
    const target = `${isIPv6(host ?? '') ? `[${host}]` : host}:${port}`
    const request = http.request(this.#proxy, {
      method: 'CONNECT',
      path: target,
      headers: { Host: target, ...proxyHeaders(this.#proxy) },
      timeout: CONNECT_TIMEOUT_MS,
      agent: false,
    })
    request.on('timeout', () => request.destroy(new Error('the proxy does not answer')))
    request.on('error', (error) => done(error, NO_STREAM))
    request.on('connect', ({ statusCode }: IncomingMessage, socket: Socket) => {
      socket.setTimeout(0)
      if (statusCode === 200) {
        done(null, connect({ ...(options as ConnectionOptions), socket }))
        return
      }
      socket.destroy()
      done(new Error(`the proxy refused the connection: ${statusCode}`), NO_STREAM)
    })
    request.end()
    return NO_STREAM
  }
}

/** RFC 7617, from the user information of the proxy's URL. */
function proxyHeaders({ username, password }: URL): Record<string, string> {
  if (username === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'Proxy-Authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
