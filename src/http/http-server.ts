/** Options and interface of the HTTP server; `uws.ts` implements it. */

import type { HttpHandler, HttpReply, HttpRequest } from './http-message.ts'

export interface ListenOptions {
  host: string
  /** 0 picks a free port. Other servers, in any thread, may share a given port. */
  port: number
  tls?: { certPath: string; keyPath: string }
  maxBodyBytes: number
  /** Another limit for some paths; undefined for `maxBodyBytes`. */
  maxBodyBytesOf?(path: string): number | undefined
  /** Lower-case names that `HttpRequest.header` answers. Others are always undefined. */
  keptHeaders: readonly string[]
  /** Kept headers whose lines are joined by commas (RFC 9110 §5.3); of others the first counts. */
  listHeaders?: readonly string[]
  handler: HttpHandler
  /** Called with the head of each request. A reply refuses the request and skips its body. */
  admit?(request: HttpRequest): HttpReply | Promise<HttpReply> | undefined
  /** Called as a connection opens; false closes it before a read or a TLS handshake. */
  accept?(peerAddress: string, openConnections: number): boolean
  /** Memory for bodies received in pieces, an eighth of it for one address; absent: unbounded. */
  maxBufferedBytes?: number
  /** A proxy forwards many clients, so it may use all of that memory. */
  isTrustedProxy?(address: string): boolean
  /**
   * The reply when that memory is full (a bare 503 by default).
   * The rest of the body is skipped; a chunked body ends its connection.
   */
  busy?(request: HttpRequest): HttpReply
  /** The reply for a failed handler. When this fails too, a bare 500 is sent. */
  onError(error: unknown, request: HttpRequest): HttpReply
  /**
   * The reply for a body over `maxBodyBytes` (413); `request.body` is empty.
   * While a promise is pending nothing more is read, and the connection ends after it.
   */
  tooLarge(request: HttpRequest): HttpReply | Promise<HttpReply>
  /**
   * The reply where the end of the body or the host is uncertain (400, RFC 9112 §3.2, §6.1, §6.3): two lengths or two
   * hosts, a wrong one, a coding other than chunked, a chunked GET or HEAD. The connection closes after it.
   */
  badRequest(request: HttpRequest): HttpReply | Promise<HttpReply>
  /** The client disconnected before the reply was complete. For logs only. */
  onAborted?(request: HttpRequest): void
}

/** Totals since `listen`; only ever rising. */
export interface HttpCounters {
  readonly connections: number
  readonly requests: number
  readonly aborted: number
  readonly tooLarge: number
  readonly handlerErrors: number
  /** Connections that `accept` refused. */
  readonly refusedConnections: number
}

export interface HttpServer {
  readonly port: number
  readonly openConnections: number
  /** Requests whose reply is not yet handed to the socket. */
  readonly inFlight: number
  /** Memory of bodies that are being received in pieces. */
  readonly bufferedBytes: number
  readonly counters: HttpCounters
  /** Takes no new connections and keeps those that are open. Other servers on the port continue. */
  stopListening(): void
  /** Takes new connections, and closes each after its next reply, which says so (RFC 9112 §9.6). */
  closeAfterReplies(): void
  /**
   * Stops listening and closes each connection after its next reply. Resolves when nothing is in
   * flight and idle connections had their grace, or after `timeoutMs`; call `close()` next.
   * The grace is a second from here, or twelve from `closeAfterReplies`.
   *
   * @returns number of requests still in flight.
   */
  drain(timeoutMs: number): Promise<number>
  /** Closes the socket and every connection at once, before the thread ends. Idempotent. */
  close(): void
}
