/** A request and a reply as values: handlers know these, only `uws.ts` knows the socket. */

import type { FixedHeaders, Header } from './header.ts'

export interface HttpRequest {
  /** As sent: methods are case-sensitive (RFC 9110 §9.1), so `get` is not GET. */
  method: string
  /** Path as sent, without the query. */
  path: string
  /** Query string without `?`; empty when absent. */
  query: string
  /** Header value by lower-case name; only the names given to `listen` are kept. Absent headers are undefined. */
  header(name: string): string | undefined
  /** Empty for methods without a body, and once it was dropped. */
  readonly body: Buffer
  /** Nobody reads the body any more. Called where a reply is kept waiting, which must not keep what it answers. */
  dropBody(): void
  /** Answered, or its client has gone away: nobody reads what would be answered now. */
  readonly isOver: boolean
  /** Text form of the TCP peer's address; a v4-mapped address is given as IPv4. */
  peerAddress: string
}

export interface HttpReply {
  status: number
  /** Written in order; names may repeat (Link). Content-Length and Date are the adapter's. */
  headers: readonly Header[]
  /** Written behind them: what many replies have in common. */
  fixedHeaders?: FixedHeaders
  body: string | Buffer
  /** The connection ends behind this reply. */
  closes?: true
}

/** A plain reply is written in the same turn, a promise later; a handler that throws or rejects becomes `onError`'s reply. */
export type HttpHandler = (request: HttpRequest) => HttpReply | Promise<HttpReply>
