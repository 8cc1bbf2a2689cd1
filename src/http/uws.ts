/**
 * The HTTP server: the only file that knows uWebSockets.js.
 *
 * Rules of that library which the code below obeys, each with a test in `test/http`:
 * - its request object is readable only during the handler's first turn; `live-request.ts` keeps what must outlive that;
 * - a response that is not finished in the first turn needs `onAborted`, else the whole process is terminated;
 * - writes outside the first turn are corked, so that head and body leave in one segment;
 * - header values are written as given: a line break in one would split the response, so `headerBlock` refuses it;
 * - a second request on a connection whose first answer is pending (pipelining) closes the connection: the first
 *   request counts as aborted, the second is not seen, and answers are never mixed up. That bounds what a connection may ask for
 *   before it reads: all requests of a read, up to 512 KB, come in one turn, and a reply is pending until the socket took it;
 * - only `tryEnd` tells whether the socket took a reply: others pile up unread without a bound;
 * - what its parser refuses (no Host, HTTP/1.0, both length headers, a head over the limit) it answers or drops by
 *   itself, as text; no handler sees it. The limit for a head that arrives in pieces is 4 KiB unless the environment
 *   variable UWS_HTTP_MAX_HEADERS_SIZE was set before the first thread loaded the library;
 * - it closes connections that neither send nor take bytes for about ten seconds within a request, or stay idle as long;
 * - Node aborts the process when a thread that holds an open server ends, so every such thread calls `close()` first.
 */

import uWS from 'uWebSockets.js'
import { BodyMemory } from './body-memory.ts'
import { LiveRequest, peerAddressOf } from './live-request.ts'
import type { HttpReply, HttpRequest } from './message.ts'
import { headOf, type ReplyHead } from './reply-head.ts'
import type { HttpServer, ListenOptions } from './server.ts'

/** A client behind its declared limit by no more than this is read (and ignored) to the end, so that it sees the 413 and
 *  not a connection reset; beyond it the connection is cut behind the reply. */
const LINGER_BYTES = 1024 * 1024

/** Bodies over this are offered to the socket in pieces as it takes them, instead of being copied into its buffer at once. */
const STREAMED_REPLY_BYTES = 64 * 1024

/**
 * What one turn of the event loop hands to a socket. A fast reader takes everything as it comes, so without a bound 42 MB
 * through TLS held up all other requests for 60 ms; this much takes well below a millisecond.
 */
const TURN_BYTES = 256 * 1024

/**
 * Replies that leave in the turn of the event loop that read their requests; others wait for its end (`docs/decisions/unread-replies.md`).
 * 10,000 requests of one read took 1.4 s, in which nobody else was answered.
 */
const PROMPT_REPLIES = 16

/**
 * How many replies without a body come before one that ends its connection: whether they are read cannot be seen.
 * nginx ends every connection after 1,000 requests.
 */
const BODILESS_REPLIES = { least: 128, most: 384 }

/** How long a drain leaves idle connections open, for requests that are on their way. */
const IDLE_GRACE_MS = 1000
const DRAIN_POLL_MS = 10

/** A body of no more, in one piece, is not charged to the memory for bodies; as many as there are connections are as much as that memory. */
const UNCHARGED_BYTES = 4 * 1024

/** A chunked body in more pieces, smaller than this on average, ends its connection: 87,000 chunks of one byte fit in a read. */
const MOST_SMALL_CHUNKS = 1024
const SMALL_CHUNK_BYTES = 64

const BARE_500: HttpReply = { status: 500, headers: [], body: '' }
const BARE_503: HttpReply = { status: 503, headers: [['Retry-After', '1']], body: '' }

/**
 * Starts a server in this thread.
 *
 * @throws Error when the address is not free or not ours, or the certificate and key cannot be loaded.
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

/** The library takes the memory of a chunk back when its callback ends. */
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

/** What one turn may hand to the socket. A string is short and ASCII. */
function pieceOf(body: string | Buffer, offset: number): string | Buffer {
  return typeof body === 'string' ? body.slice(offset) : body.subarray(offset, offset + TURN_BYTES)
}

/** What outlives the first turn of a request that is not answered in it. */
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
    // Known methods by their own route, which saves asking for the name.
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
    // The library shares only ports that were named (SO_REUSEPORT), so a free one is found first and then named.
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

  /** The library tells of an end without saying whose: the address of a socket is known while it is open. */
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

  /** @param takesBody false for GET and HEAD: a body, should one come, is skipped by the library. */
  #begin(method: string, takesBody: boolean, res: uWS.HttpResponse, req: uWS.HttpRequest): void {
    this.counters.requests++
    const request = new LiveRequest(method, this.#options, res, req)
    // A connection that was reset has no address any more, and nobody who reads its replies.
    if (request.peerAddress === '') {
      this.counters.aborted++
      res.close()
      return
    }
    const declared = req.getHeader('content-length')
    const chunked = declared === '' && req.getHeader('transfer-encoding') !== ''
    if (declared === '' && !chunked) {
      // The library heeds the first line of a name: an empty one hides the length behind it. Who sends a GET directly could
      // only deceive itself, and is spared the look at every header.
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

  /** @returns true when the request was refused by its head and has its reply, or will get it. */
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

  /** Counts a reply that is ready in the turn of its request. @returns false when it has to wait for the end of the turn. */
  #isPrompt(): boolean {
    if (this.#repliesOfTurn === 0)
      setImmediate(() => {
        this.#repliesOfTurn = 0
      })
    return ++this.#repliesOfTurn <= PROMPT_REPLIES
  }

  /**
   * Where the body ends is not certain: what follows may be a request that somebody smuggled past a proxy (RFC 9112 §11.2), and the library
   * would parse it as the next one even behind a reply that closes. A pending reply makes it close the connection there.
   */
  #refuseAmbiguous(res: uWS.HttpResponse, request: LiveRequest): void {
    const exchange = this.#track(res, request)
    setImmediate(() => this.#finishBy(exchange, this.#guard(request, this.#options.badRequest), true))
  }

  /** Answered at once, whether or not the client has begun to send; `Expect: 100-continue` asks for just that. */
  #refuseLarge(res: uWS.HttpResponse, request: LiveRequest, declared: number): void {
    this.counters.tooLarge++
    const reply = this.#guard(request, this.#options.tooLarge)
    if (reply instanceof Promise) this.#finishBy(this.#track(res, request), reply, true)
    else this.#write(res, request, reply, declared > this.#options.maxBodyBytes + LINGER_BYTES)
  }

  /**
   * A short body in one piece, the usual case, is copied once and passes the memory for bodies by. Others are gathered there. A
   * chunked body over the limit is counted but not stored, and refused at its end or when it has used up the patience.
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
        // The rest of a declared body is skipped within bounds, that of a chunked one would have none.
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
      // The reply to an error failed itself; the client still gets an answer, and the counter says that it happened.
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

  /** A refusal. The one that comes later leaves the rest of the body in the network, and the connection with it. */
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
        // After an abort there is nobody to make an error reply for, but the failure still goes to the log.
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

  /** @returns false when the rest of a large body follows as the socket takes it; `exchange` is settled after that. */
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
      // The library's own way to report a length without a body leaves the response pending.
      if (length !== undefined) res.writeHeader('Content-Length', String(length))
      res.endWithoutBody()
      return true
    }
    // As octets where it is not ASCII: in Node.js 24 the library writes such a string as Latin-1.
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
   * Not all versions of the library close behind a reply without a body, and none behind one that is not read. So a line break in the
   * last value ends the head; for the library the response is then pending, and may be closed.
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
    // A socket that takes no more says so, and this says when it does again.
    res.onWritable(next)
    if (accepted) goOn()
    return false
  }

  /** Everything that can be wrong with a reply shows here, before its first byte is written. */
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
