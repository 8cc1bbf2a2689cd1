/** What an HTTP server is given and what it tells: known to whoever starts one; how it is done is in `uws.ts`. */

import type { HttpHandler, HttpReply, HttpRequest } from './message.ts'

export interface ListenOptions {
  host: string
  /** 0 picks a free port. Other servers, in any thread, may share a given port. */
  port: number
  tls?: { certPath: string; keyPath: string }
  maxBodyBytes: number
  /** Lower-case names that `HttpRequest.header` answers. Others are always undefined. */
  keptHeaders: readonly string[]
  /** Those of them whose lines make one list, joined by commas (RFC 9110 §5.3). Of others the first line counts. */
  listHeaders?: readonly string[]
  handler: HttpHandler
  /** Asked with the head of each request, before its body is read. A reply refuses it; the body is skipped. */
  admit?(request: HttpRequest): HttpReply | Promise<HttpReply> | undefined
  /** Asked as a connection opens; false closes it before anything is read or, with TLS, computed. */
  accept?(peerAddress: string, openConnections: number): boolean
  /** Memory for all bodies that are being received in pieces, an eighth of it for one address; without it any amount. */
  maxBufferedBytes?: number
  /** A proxy that speaks for many, and may use all of that memory. */
  isTrustedProxy?(address: string): boolean
  /** The reply for a body that does not fit there any more (503, a bare one by default). Its rest is skipped; behind a chunked one the connection ends. */
  busy?(request: HttpRequest): HttpReply
  /** The reply for a handler that threw or rejected; where it throws itself, or its reply cannot be written, a bare 500 is sent. */
  onError(error: unknown, request: HttpRequest): HttpReply
  /** The reply for a body over `maxBodyBytes` (413); `request.body` is empty. Behind a promise nothing more is read, and the connection ends. */
  tooLarge(request: HttpRequest): HttpReply | Promise<HttpReply>
  /** The reply for two Content-Lengths, one that is no number, or a foreign Transfer-Encoding (400, RFC 9112 §6.1, §6.3); the connection closes with it. */
  badRequest(request: HttpRequest): HttpReply | Promise<HttpReply>
  /** The client went away before the reply was complete. For logs only. */
  onAborted?(request: HttpRequest): void
}

/** Totals since `listen`; only ever rising. */
export interface HttpCounters {
  readonly connections: number
  readonly requests: number
  readonly aborted: number
  readonly tooLarge: number
  readonly handlerErrors: number
  /** Connections that `accept` did not want. */
  readonly refusedConnections: number
}

export interface HttpServer {
  readonly port: number
  readonly openConnections: number
  /** Requests whose reply is not yet handed to the socket. */
  readonly inFlight: number
  /** Allocated for bodies that are being received in pieces. */
  readonly bufferedBytes: number
  readonly counters: HttpCounters
  /** No new connections; existing ones go on. Other servers on the same port are not touched. */
  stopListening(): void
  /**
   * Stops listening and closes each connection behind its next reply. Resolves when nothing is in flight and every
   * connection is gone or had a second to notice, and at the latest after `timeoutMs`. `close()` comes next.
   *
   * @returns number of requests still in flight.
   */
  drain(timeoutMs: number): Promise<number>
  /** Closes the listening socket and every connection at once. Idempotent. Must precede the end of the thread. */
  close(): void
}
