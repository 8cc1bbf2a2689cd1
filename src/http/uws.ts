/**
 * The HTTP server: the only file that knows uWebSockets.js.
 *
 * Rules of that library, each with a test in `test/http`:
 * - The request object is readable only in the handler's first turn (see `live-request.ts`).
 * - A response not finished in the first turn needs `onAborted`, else the process is terminated.
 * - Writes outside the first turn are corked, so that head and body leave in one segment.
 * - Header values are written as given. `headerBlock` refuses line breaks that would split a reply.
 * - A second request while a reply is pending (pipelining) closes the connection. The first counts
 *   as aborted, and the second is not seen.
 * - All requests of one read, up to 512 KB, come in one turn. This bounds pipelining, because a
 *   reply stays pending until the socket has taken it.
 * - Only `tryEnd` tells whether the socket took a reply. Other calls let unread replies pile up.
 * - The parser itself answers or drops requests without Host, of HTTP/1.0, with both length
 *   headers, or with a head over the limit. No handler sees them.
 * - A head that arrives in pieces may have 4 KiB. UWS_HTTP_MAX_HEADERS_SIZE raises that if it is
 *   set before the first thread loads the library.
 * - Connections are closed after about ten seconds without a byte, idle or within a request.
 * - Node aborts the process when a thread with an open server ends, so `close()` comes first.
 */

import uWS from 'uWebSockets.js'
import { BodyMemory } from './body-memory.ts'
import { LiveRequest, peerAddressOf } from './live-request.ts'
import type { HttpReply, HttpRequest } from './message.ts'
import { headOf, type ReplyHead } from './reply-head.ts'
import type { HttpServer, ListenOptions } from './server.ts'

/**
 * An excess of a body up to this is read and ignored, so that the client sees the 413.
 * A larger one cuts the connection after the reply.
 */
const LINGER_BYTES = 1024 * 1024

/** Larger reply bodies go to the socket in pieces, not into its buffer at once. */
const STREAMED_REPLY_BYTES = 64 * 1024

/**
 * Bytes that one turn of the event loop hands to a socket; they take well below a millisecond.
 * Without a bound, 42 MB through TLS held up all other requests for 60 ms.
 */
const TURN_BYTES = 256 * 1024

/**
 * Replies sent in the turn that read their requests; others wait for its end
 * (`docs/decisions/unread-replies.md`). 10,000 requests of one read blocked the thread for 1.4 s.
 */
const PROMPT_REPLIES = 16

/**
 * Replies without a body before one ends its connection: nothing shows whether they are read.
 * nginx ends every connection after 1,000 requests.
 */
const BODILESS_REPLIES = { least: 128, most: 384 }

/** How long a drain keeps idle connections open, for requests already sent. */
const IDLE_GRACE_MS = 1000
const DRAIN_POLL_MS = 10

/**
 * A body up to this size, in one piece, is not charged to the memory for bodies.
 * One for each connection takes as much as that memory.
 */
const UNCHARGED_BYTES = 4 * 1024

/**
 * A chunked body of more pieces than this, with a smaller average size, ends its connection.
 * 87,000 chunks of one byte fit in a read.
 */
const MOST_SMALL_CHUNKS = 1024
const SMALL_CHUNK_BYTES = 64

const BARE_500: HttpReply = { status: 500, headers: [], body: '' }
const BARE_503: HttpReply = { status: 503, headers: [['Retry-After', '1']], body: '' }

/**
 * Starts a server in this thread.
 *
 * @throws Error when the address cannot be bound, or the certificate and key cannot be loaded
 */
export function listen(options: ListenOptions): HttpServer {
  // Drops the library's own response header; the setting belongs to the thread's loop.
  ;(uWS as unknown as { _cfg(key: string): void })._cfg('silent')
  const app = createApp(options)
  const server = new Server(app, options)
  server.bind()
  return server
}

function createApp({ tls }: ListenOptions): uWS.TemplatedApp {
  if (tls === undefined) return uWS.App()
  try {
    return uWS.SSLApp({ cert_file_name: tls.certPath, key_file_name: tls.keyPath })
  } catch (error) {
    throw new Error(`cannot load the certificate ${tls.certPath} with the key ${tls.keyPath}`, { cause: error })
  }
}

/** The library reuses the memory of a chunk after its callback. */
function copyOf(chunk: ArrayBuffer): Buffer {
  const copy = Buffer.allocUnsafe(chunk.byteLength)
  copy.set(new Uint8Array(chunk))
  return copy
}

function bodilessReplies(): number {
  const { least, most } = BODILESS_REPLIES
  return least + Math.floor(Math.random() * (most - least))
}

function afterTurn(reply: HttpReply): Promise<HttpReply> {
  return new Promise((resolve) => setImmediate(resolve, reply))
}

/** The next piece for the socket. A string is short and ASCII, so it is one piece. */
function pieceOf(body: string | Buffer, offset: number): string | Buffer {
  return typeof body === 'string' ? body.slice(offset) : body.subarray(offset, offset + TURN_BYTES)
}

/** A request that is not answered in its first turn. */
interface Exchange {
  res: uWS.HttpResponse
  request: LiveRequest
  /** Answered or aborted: `res` must not be touched any more. */
  over: boolean
}

class Server implements HttpServer {
  port = 0
  openConnections = 0
  inFlight = 0
  readonly counters = {
    connections: 0,
    requests: 0,
    aborted: 0,
    tooLarge: 0,
    handlerErrors: 0,
    refusedConnections: 0,
  }
  readonly #app: uWS.TemplatedApp
  readonly #options: ListenOptions
  readonly #bodyMemory: BodyMemory
  readonly #isTrustedProxy: (address: string) => boolean
  #listenSocket: uWS.us_listen_socket | undefined
  #draining = false
  #closed = false
  #repliesOfTurn = 0
  #bodilessLeft = bodilessReplies()

  constructor(app: uWS.TemplatedApp, options: ListenOptions) {
    this.#app = app
    this.#options = options
    const { maxBufferedBytes: maxBytes, isTrustedProxy = () => false } = options
    this.#bodyMemory = new BodyMemory({ maxBytes, isTrustedProxy })
    this.#isTrustedProxy = isTrustedProxy
    app.filter((res: uWS.HttpResponse, change: unknown): void => this.#countConnection(res, Number(change)))
    // A route for each known method saves a call for the method's name.
    app.get('/*', (res, req) => this.#begin('GET', false, res, req))
    app.head('/*', (res, req) => this.#begin('HEAD', false, res, req))
    app.post('/*', (res, req) => this.#begin('POST', true, res, req))
    app.any('/*', (res, req) => this.#begin(req.getCaseSensitiveMethod(), true, res, req))
  }

  get bufferedBytes(): number {
    return this.#bodyMemory.bytes
  }

  bind(): void {
    const { host, port } = this.#options
    // The library shares only an explicit port (SO_REUSEPORT), so port 0 is resolved first.
    const named = port === 0 ? this.#freePort(host) : port
    const socket = this.#listenOn(host, named)
    this.#listenSocket = socket
    this.port = named
  }

  #freePort(host: string): number {
    const socket = this.#listenOn(host, 0)
    const port = uWS.us_socket_local_port(socket)
    uWS.us_listen_socket_close(socket)
    return port
  }

  #listenOn(host: string, port: number): uWS.us_listen_socket {
    let listening: uWS.us_listen_socket | false = false
    // The callback runs before `listen` returns.
    this.#app.listen(host, port, (socket) => {
      listening = socket
    })
    if (listening !== false) return listening
    this.close()
    throw new Error(
      `cannot listen on ${host} port ${port}: in use by another program, not our address, or not permitted`,
    )
  }

  stopListening(): void {
    if (this.#listenSocket === undefined) return
    uWS.us_listen_socket_close(this.#listenSocket)
    this.#listenSocket = undefined
  }

  async drain(timeoutMs: number): Promise<number> {
    this.#draining = true
    this.stopListening()
    const start = performance.now()
    for (;;) {
      const elapsed = performance.now() - start
      const quiet = this.inFlight === 0 && (this.openConnections === 0 || elapsed >= IDLE_GRACE_MS)
      if (this.#closed || quiet || elapsed >= timeoutMs) return this.inFlight
      await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS))
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#listenSocket = undefined
    this.#app.close()
  }

  /** A closed connection has no address any more, so only opened ones are checked. */
  #countConnection(res: uWS.HttpResponse, change: number): void {
    this.openConnections += change
    if (change < 0) return
    this.counters.connections++
    const { accept } = this.#options
    if (accept === undefined) return
    if (accept(peerAddressOf(res), this.openConnections)) return
    this.counters.refusedConnections++
    res.close()
  }

  /** @param takesBody false for GET and HEAD, whose body the library skips. */
  #begin(method: string, takesBody: boolean, res: uWS.HttpResponse, req: uWS.HttpRequest): void {
    this.counters.requests++
    const request = new LiveRequest(method, this.#options, res, req)
    // A connection that was reset has no address any more, and no reader.
    if (request.peerAddress === '') {
      this.counters.aborted++
      res.close()
      return
    }
    const declared = req.getHeader('content-length')
    const chunked = declared === '' && req.getHeader('transfer-encoding') !== ''
    if (declared === '' && !chunked) {
      // The library reads only the first line of a name, so an empty one hides a second length.
      // A GET without a proxy can harm only its own connection, so the full check is skipped.
      const isAmbiguous = (takesBody || this.#isTrustedProxy(request.peerAddress)) && !request.detach()
      if (isAmbiguous) this.#refuseAmbiguous(res, request)
      else if (!this.#isTurnedAway(res, request)) this.#answer(res, request)
      return
    }
    const length = chunked ? undefined : Number(declared)
    if (!request.detach()) this.#refuseAmbiguous(res, request)
    else if (this.#isTurnedAway(res, request)) return
    else if (!takesBody || length === 0) this.#answer(res, request)
    else if (length !== undefined && length > this.#options.maxBodyBytes) this.#refuseLarge(res, request, length)
    else this.#collect(res, request, length)
  }

  /** @returns true when `admit` has refused the request, with a reply sent or pending. */
  #isTurnedAway(res: uWS.HttpResponse, request: LiveRequest): boolean {
    if (this.#options.admit === undefined) return false
    const refusal = this.#run(request, this.#options.admit)
    if (refusal === undefined) return false
    this.#reply(res, request, refusal)
    return true
  }

  #answer(res: uWS.HttpResponse, request: LiveRequest): void {
    this.#reply(res, request, this.#run(request, this.#options.handler))
  }

  #reply(res: uWS.HttpResponse, request: LiveRequest, reply: HttpReply | Promise<HttpReply>): void {
    if (reply instanceof Promise || !this.#isPrompt()) {
      request.detach()
      this.#finishLater(this.#track(res, request), reply instanceof Promise ? reply : afterTurn(reply))
    } else {
      request.release()
      this.#write(res, request, reply, false)
    }
  }

  /**
   * Counts a reply that is ready in the turn of its request.
   * @returns false when it has to wait for the end of the turn
   */
  #isPrompt(): boolean {
    if (this.#repliesOfTurn === 0)
      setImmediate(() => {
        this.#repliesOfTurn = 0
      })
    return ++this.#repliesOfTurn <= PROMPT_REPLIES
  }

  /**
   * After an ambiguous length a smuggled request may follow (RFC 9112 §11.2), which the library
   * would parse even behind a closing reply. A pending reply makes it close the connection instead.
   */
  #refuseAmbiguous(res: uWS.HttpResponse, request: LiveRequest): void {
    const exchange = this.#track(res, request)
    setImmediate(() => this.#finishBy(exchange, this.#guard(request, this.#options.badRequest), true))
  }

  /** Replies before the body arrives, as `Expect: 100-continue` wants. */
  #refuseLarge(res: uWS.HttpResponse, request: LiveRequest, declared: number): void {
    this.counters.tooLarge++
    const reply = this.#guard(request, this.#options.tooLarge)
    if (reply instanceof Promise) this.#finishBy(this.#track(res, request), reply, true)
    else this.#write(res, request, reply, declared > this.#options.maxBodyBytes + LINGER_BYTES)
  }

  /**
   * A short body in one piece, the usual case, is copied once and not charged; others are gathered.
   * A chunked body over the limit is not stored, and refused at its end or `LINGER_BYTES` later.
   */
  #collect(res: uWS.HttpResponse, request: LiveRequest, declared: number | undefined): void {
    const limit = this.#options.maxBodyBytes
    const exchange = this.#track(res, request)
    let size = 0
    let pieces = 0
    let isRefused = false
    res.onData((chunk, isLast) => {
      if (exchange.over || isRefused) return
      const isWhole = isLast && size === 0
      size += chunk.byteLength
      if (declared === undefined && ++pieces > MOST_SMALL_CHUNKS && size < pieces * SMALL_CHUNK_BYTES) {
        res.close()
        return
      }
      if (size > limit) {
        request.dropBody()
        if (!isLast && size <= limit + LINGER_BYTES) return
        this.counters.tooLarge++
        isRefused = true
        this.#finishBy(exchange, this.#guard(request, this.#options.tooLarge), !isLast)
        return
      }
      if (isWhole && size <= UNCHARGED_BYTES) request.body = copyOf(chunk)
      else if (chunk.byteLength > 0 && !this.#gather(request, chunk, declared)) {
        // The rest of a declared body is bounded and skipped; that of a chunked one is unbounded.
        this.#finish(exchange, this.#guard(request, this.#options.busy), declared === undefined && !isLast)
        return
      }
      if (!isLast) return
      if (request.gathered !== undefined) request.body = request.gathered.bytes
      const reply = this.#run(request, this.#options.handler)
      if (reply instanceof Promise) this.#finishLater(exchange, reply)
      else if (this.#isPrompt()) this.#finish(exchange, reply)
      else this.#finishLater(exchange, afterTurn(reply))
    })
  }

  /** @returns false when there is no memory for this piece of a body. */
  #gather(request: LiveRequest, chunk: ArrayBuffer, declared: number | undefined): boolean {
    request.gathered ??= this.#bodyMemory.begin(request.peerAddress, declared ?? this.#options.maxBodyBytes)
    return request.gathered.add(new Uint8Array(chunk))
  }

  #run<R>(request: LiveRequest, handler: (request: HttpRequest) => R): R | HttpReply {
    try {
      return handler(request)
    } catch (error) {
      return this.#errorReply(error, request)
    }
  }

  #errorReply(error: unknown, request: LiveRequest): HttpReply {
    this.counters.handlerErrors++
    return this.#guard(request, () => this.#options.onError(error, request))
  }

  #guard<R>(request: LiveRequest, make: ((request: HttpRequest) => R) | undefined): R | HttpReply {
    try {
      return make?.(request) ?? BARE_503
    } catch {
      // The error reply itself failed; the client still gets an answer.
      this.counters.handlerErrors++
      return BARE_500
    }
  }

  #track(res: uWS.HttpResponse, request: LiveRequest): Exchange {
    const exchange: Exchange = { res, request, over: false }
    this.inFlight++
    res.onAborted(() => {
      if (exchange.over) return
      this.#settle(exchange)
      this.counters.aborted++
      this.#options.onAborted?.(request)
    })
    return exchange
  }

  #settle(exchange: Exchange): void {
    exchange.over = true
    exchange.request.isOver = true
    exchange.request.dropBody()
    this.inFlight--
  }

  /** Sends a refusal. A pending one stops reading the body, so its connection ends after it. */
  #finishBy(exchange: Exchange, reply: HttpReply | Promise<HttpReply>, thenClose: boolean): void {
    if (!(reply instanceof Promise)) {
      this.#finish(exchange, reply, thenClose)
      return
    }
    exchange.res.pause()
    this.#finishLater(exchange, reply, true)
  }

  #finishLater(exchange: Exchange, reply: Promise<HttpReply>, thenClose = false): void {
    reply.then(
      (value) => this.#finish(exchange, value, thenClose),
      (error) => {
        // After an abort no reply is sent, but `onError` still logs the failure.
        this.#finish(exchange, this.#errorReply(error, exchange.request))
      },
    )
  }

  #finish(exchange: Exchange, reply: HttpReply, thenClose = false): void {
    if (exchange.over) return
    const { res, request } = exchange
    res.cork(() => {
      if (this.#write(res, request, reply, thenClose, exchange)) this.#settle(exchange)
    })
  }

  /** @returns false while the rest of a large body follows; `exchange` is settled after it */
  #write(
    res: uWS.HttpResponse,
    request: LiveRequest,
    reply: HttpReply,
    thenClose: boolean,
    exchange?: Exchange,
  ): boolean {
    const { status, block, firstName, body, closes } = this.#head(reply, request)
    const close = thenClose || this.#draining || closes
    if (status !== '200 OK') res.writeStatus(status)
    if (firstName !== undefined) res.writeHeader(firstName, block)

    const hasNoLength = status.startsWith('204') || status.startsWith('304')
    if (hasNoLength || request.method === 'HEAD') {
      const length = hasNoLength ? undefined : Buffer.byteLength(body)
      if (close || this.#isLastBodiless()) return this.#endHeadAndClose(res, request, length, exchange)
      // The library's own call for a length without a body leaves the response pending.
      if (length !== undefined) res.writeHeader('Content-Length', String(length))
      res.endWithoutBody()
      return true
    }
    // Other than ASCII as octets: in Node.js 24 the library writes such a string as Latin-1.
    const isShortAscii = body.length <= STREAMED_REPLY_BYTES && Buffer.byteLength(body) === body.length
    const octets = typeof body === 'string' && !isShortAscii ? Buffer.from(body) : body
    if (octets.length === 0 || (close && octets.length <= STREAMED_REPLY_BYTES)) {
      res.end(octets, close)
      return true
    }
    if (close) res.writeHeader('Connection', 'close')
    return this.#stream(res, request, octets, exchange)
  }

  #isLastBodiless(): boolean {
    if (--this.#bodilessLeft > 0) return false
    this.#bodilessLeft = bodilessReplies()
    return true
  }

  /**
   * Not every version of the library closes after a reply without a body, and none after an unread
   * one. A line break in the last value ends the head; the pending response can be closed.
   */
  #endHeadAndClose(
    res: uWS.HttpResponse,
    request: LiveRequest,
    length: number | undefined,
    pending?: Exchange,
  ): boolean {
    const exchange = pending ?? this.#track(res, request)
    if (length !== undefined) res.writeHeader('Content-Length', String(length))
    res.writeHeader('Connection', 'close')
    res.writeHeader('Date', `${new Date().toUTCString()}\r\n`)
    setImmediate(() => {
      if (exchange.over) return
      this.#settle(exchange)
      res.close()
    })
    return false
  }

  #stream(res: uWS.HttpResponse, request: LiveRequest, body: string | Buffer, exchange: Exchange | undefined): boolean {
    const [accepted, complete] = res.tryEnd(pieceOf(body, 0), body.length)
    if (complete) return true
    const pending = exchange ?? this.#track(res, request)
    const goOn = () =>
      setImmediate(() => {
        if (!pending.over) res.cork(() => next(res.getWriteOffset()))
      })
    const next = (offset: number): boolean => {
      const [taken, done] = res.tryEnd(pieceOf(body, offset), body.length)
      if (done) this.#settle(pending)
      else if (taken) goOn()
      return taken
    }
    // Continues when a full socket has room again.
    res.onWritable(next)
    if (accepted) goOn()
    return false
  }

  /** Faults of a reply are found here, before its first byte is written. */
  #head(reply: HttpReply, request: LiveRequest): ReplyHead {
    try {
      return headOf(reply)
    } catch (error) {
      try {
        return headOf(this.#errorReply(error, request))
      } catch {
        return headOf(BARE_500)
      }
    }
  }
}
