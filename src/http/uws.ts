/**
 * The HTTP server over uWebSockets.js: `request-reader.ts` reads requests, `reply-writer.ts` writes replies.
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
 * - `write` tells, within `cork`, whether the socket took what was written before. `close` drops the rest.
 * - The parser itself answers or drops requests without Host, of HTTP/1.0, with both length
 *   headers, or with a head over the limit. No handler sees them.
 * - A head that arrives in pieces may have 4 KiB. UWS_HTTP_MAX_HEADERS_SIZE raises that if it is
 *   set before the first thread loads the library.
 * - Connections are closed after about ten seconds without a byte, idle or within a request.
 * - Node aborts the process when a thread with an open server ends, so `close()` comes first.
 */

import uWS from 'uWebSockets.js'
import { BodyMemory } from './body-memory.ts'
import type { HttpServer, ListenOptions } from './http-message.ts'
import { Exchanges, HandlerCalls, peerAddressOf } from './live-request.ts'
import { ReplyWriter } from './reply-writer.ts'
import { RequestReader } from './request-reader.ts'

/** How long a drain keeps idle connections open, for requests already sent. */
const IDLE_GRACE_MS = 1000
/** The library has closed a connection without a byte by then; until it does, its client may send a request. */
const LONGEST_IDLE_MS = 12_000
const DRAIN_POLL_MS = 10

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

class Server implements HttpServer {
  port = 0
  openConnections = 0
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
  readonly #exchanges: Exchanges
  readonly #replies: ReplyWriter
  #listenSocket: uWS.us_listen_socket | undefined
  #idleEndsAt: number | undefined
  #closed = false

  constructor(app: uWS.TemplatedApp, options: ListenOptions) {
    this.#app = app
    this.#options = options
    const { maxBufferedBytes: maxBytes, isTrustedProxy = () => false } = options
    this.#bodyMemory = new BodyMemory({ maxBytes, isTrustedProxy })
    this.#exchanges = new Exchanges((request) => {
      this.counters.aborted++
      options.onAborted?.(request)
    })
    const calls = new HandlerCalls(options.onError, this.counters)
    this.#replies = new ReplyWriter(this.#exchanges, calls)
    app.filter((res: uWS.HttpResponse, change: unknown): void => this.#countConnection(res, Number(change)))
    new RequestReader({
      options,
      memory: this.#bodyMemory,
      exchanges: this.#exchanges,
      calls,
      replies: this.#replies,
      counters: this.counters,
    }).routeAll(app)
  }

  get inFlight(): number {
    return this.#exchanges.inFlight
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

  closeAfterReplies(): void {
    this.#replies.isDraining = true
    this.#idleEndsAt = performance.now() + LONGEST_IDLE_MS
  }

  async drain(timeoutMs: number): Promise<number> {
    this.#replies.isDraining = true
    this.stopListening()
    const start = performance.now()
    const idleEndsAt = this.#idleEndsAt ?? start + IDLE_GRACE_MS
    for (;;) {
      const now = performance.now()
      const quiet = this.#exchanges.inFlight === 0 && (this.openConnections === 0 || now >= idleEndsAt)
      if (this.#closed || quiet || now >= start + timeoutMs) return this.#exchanges.inFlight
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
}
