/**
 * The HTTPS server of a perspective: one resource of the Open MPIC API.
 *
 * Callers authenticate by a token, a client certificate, or both. A caller can make this host
 * connect to names and addresses. So nothing is parsed before authentication, bodies and
 * connections are bounded, and the validators' address policy applies.
 */

import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import { LruMap } from '../shared/lib/caching.ts'
import { countedAddress } from '../shared/lib/ip-address.ts'
import { type CheckOutcome, MPIC_PATH, MpicRequest, renderResponse } from './perspective-api.ts'

export interface PerspectiveServerOptions {
  bind: string
  port: number
  /** In PEM. */
  cert: string
  key: string
  /** In PEM; when set, callers need a certificate from these CAs. */
  clientCa: string | undefined
  /** When not empty, callers need one of these tokens. */
  tokens: readonly string[]
  /** The `perspective_code` of the answers. */
  code: string
  /** @throws Busy when no further check fits */
  check(request: MpicRequest): Promise<CheckOutcome>
  /** Logs every answered request. */
  onAnswered(facts: Answered): void
  onFault(error: unknown): void
}

export interface Answered {
  status: number
  remote: string | undefined
  request?: MpicRequest
  outcome?: CheckOutcome
  ms: number
}

export interface PerspectiveServer {
  port: number
  /** Refuses new connections, waits `timeoutMs` for running requests, then closes their connections. */
  close(timeoutMs: number): Promise<void>
}

/** The server is full; the caller should retry soon. */
export class Busy extends Error {}

const MAX_BODY_BYTES = 16_384
const MAX_CONNECTIONS = 2000
const BODY_TIMEOUT_MS = 10_000
const IDLE_TIMEOUT_MS = 65_000
/** How often Node checks the timeouts above; its default is 30 seconds. */
const CHECKING_MS = 1000

/** Ends a request with this status and message. */
class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export async function startPerspectiveServer(options: PerspectiveServerOptions): Promise<PerspectiveServer> {
  const { cert, key, clientCa } = options
  const digests = options.tokens.map(digestOf)
  const server = createServer(
    {
      cert,
      key,
      minVersion: 'TLSv1.2',
      ...(clientCa !== undefined && { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
      requestTimeout: BODY_TIMEOUT_MS,
      headersTimeout: BODY_TIMEOUT_MS,
      handshakeTimeout: BODY_TIMEOUT_MS,
      keepAliveTimeout: IDLE_TIMEOUT_MS,
      connectionsCheckingInterval: CHECKING_MS,
    },
    (request, response) => void respond(request, response),
  )
  server.maxConnections = MAX_CONNECTIONS
  const callers = new UnknownCallers()
  server.on('connection', (socket: Socket) => callers.opened(socket))
  // Anyone can fail a handshake; the connection is closed already.
  server.on('tlsClientError', () => {})

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = performance.now()
    const facts: Answered = { status: 500, remote: request.socket.remoteAddress, ms: 0 }
    let body: unknown
    try {
      body = await answer(request, facts)
      facts.status = 200
    } catch (error) {
      // The client disconnected inside its body, which is no fault here.
      if (request.errored === error) return
      const refusal = refusalOf(error)
      if (refusal.status === 500) options.onFault(error)
      facts.status = refusal.status
      body = { error: refusal.message }
    }
    const headers = {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      ...(facts.status === 401 && { 'www-authenticate': 'Bearer' }),
      ...(facts.status === 503 && { 'retry-after': '5' }),
      // Unread body bytes must not be parsed as the next request.
      ...(facts.status !== 200 && { connection: 'close' }),
    }
    response.writeHead(facts.status, headers).end(JSON.stringify(body))
    options.onAnswered({ ...facts, ms: Math.round(performance.now() - startedAt) })
  }

  async function answer(request: IncomingMessage, facts: Answered): Promise<unknown> {
    requireToken(request, digests)
    callers.known(request.socket)
    if (request.url?.split('?')[0] !== MPIC_PATH) throw new Refusal(404, `there is only ${MPIC_PATH}`)
    if (request.method !== 'POST') throw new Refusal(405, 'the method must be POST')
    if (!/^application\/json(?:\s*;|$)/i.test(request.headers['content-type'] ?? ''))
      throw new Refusal(415, 'the body must be application/json')
    const parsed = MpicRequest.safeParse(jsonOf(await readBody(request)))
    if (!parsed.success) throw new Refusal(400, `not a check that can be made here: ${issuesIn(parsed.error)}`)
    facts.request = parsed.data
    facts.outcome = await options.check(parsed.data)
    return renderResponse(parsed.data, facts.outcome, options.code, new Date())
  }

  await listening(server, options)
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : options.port,
    close: (timeoutMs) => closed(server, timeoutMs),
  }
}

function listening(server: Server, { bind, port }: PerspectiveServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, bind, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })
}

function closed(server: Server, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), timeoutMs)
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    server.closeIdleConnections()
  })
}

const digestOf = (token: string) => hash('sha256', token, 'buffer')

/** Compares digests and always all tokens, so that timing reveals neither length nor similarity. */
function requireToken({ headers }: IncomingMessage, digests: readonly Buffer[]): void {
  if (digests.length === 0) return
  const [, token = ''] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? []
  const shown = digestOf(token)
  const known = digests.map((digest) => timingSafeEqual(digest, shown)).includes(true)
  if (!known) throw new Refusal(401, 'the bearer token is missing or unknown')
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new Refusal(413, `the body may have ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new Refusal(400, 'the body is not JSON')
  }
}

function issuesIn(error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  return error.issues
    .map(({ path, message }) => `${path.map(String).join('.')}: ${message}`)
    .join('; ')
    .slice(0, 500)
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof Busy) return new Refusal(503, 'too many checks run at the moment')
  return new Refusal(500, 'the check could not be made')
}

/** A service opens as many before it has shown its token (remote-perspective.ts). */
const MOST_WITHOUT_TOKEN = 64
const MOST_KNOWN_ADDRESSES = 1_024

/** Bounds the connections of each address that has shown no token, so that they leave room for the others. */
class UnknownCallers {
  readonly #open = new Map<string, number>()
  readonly #known = new LruMap<string, true>(MOST_KNOWN_ADDRESSES)

  opened(socket: Socket): void {
    const address = addressOf(socket)
    const open = this.#open.get(address) ?? 0
    if (open >= MOST_WITHOUT_TOKEN && !this.#known.get(address)) {
      socket.destroy()
      return
    }
    this.#open.set(address, open + 1)
    // The address of a closed socket cannot be read any more.
    socket.once('close', () => this.#closed(address))
  }

  /** Its address has shown a token. */
  known(socket: Socket): void {
    this.#known.set(addressOf(socket), true)
  }

  #closed(address: string): void {
    const open = this.#open.get(address) ?? 0
    if (open > 1) this.#open.set(address, open - 1)
    else this.#open.delete(address)
  }
}

const addressOf = ({ remoteAddress = '' }: Socket): string => countedAddress(remoteAddress)
