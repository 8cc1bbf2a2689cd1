/** Request and reply as values for handlers; only `uws.ts` uses the socket. */

import type { FixedHeaders, Header } from './header.ts'

export interface HttpRequest {
  /** As sent: methods are case-sensitive (RFC 9110 §9.1), so `get` is not GET. */
  method: string
  /** Path as sent, without the query. */
  path: string
  /** Query string without `?`; empty when absent. */
  query: string
  /** Value by lower-case name; undefined when absent or not in `keptHeaders`. */
  header(name: string): string | undefined
  /** Empty for methods without a body, and once it was dropped. */
  readonly body: Buffer
  /** Frees the body. Called when a reply waits, so that it does not hold memory. */
  dropBody(): void
  /** Answered, or its client has disconnected. */
  readonly isOver: boolean
  /** Text form of the TCP peer's address; a v4-mapped address is given as IPv4. */
  peerAddress: string
}

export interface HttpReply {
  status: number
  /** Written in order; names may repeat (Link). Content-Length and Date are the adapter's. */
  headers: readonly Header[]
  /** Written after them; shared by many replies. */
  fixedHeaders?: FixedHeaders
  /** The whole body, or its first piece when `rest` is given. */
  body: string | Buffer
  /** The rest of a body whose length is not known; asked for when the client has taken enough. */
  rest?: BodyRest
  /** The connection ends after this reply. */
  closes?: true
}

export interface BodyRest {
  /** The next piece; undefined at the end. A rejection cuts the connection, so that it shows. */
  next(): Promise<string | undefined>
  /** The client went away. */
  cancel(): void
}

/** A handler that throws or rejects is answered by `onError`. */
export type HttpHandler = (request: HttpRequest) => HttpReply | Promise<HttpReply>
