/**
 * Request and reply as values for handlers, and the server that they belong to, which `uws.ts` implements.
 *
 * Some header values come from requests (an echoed request id, a Location), and the library writes
 * them as given. So the head of a reply is checked before its first byte is written: a line break
 * in a value would let a client write headers of its own.
 */

import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { BlockList, isIP } from 'node:net'

export interface HttpRequest {
  /** Methods are case-sensitive (RFC 9110 §9.1), so `get` is not GET. */
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
  next(): Promise<string | Buffer | undefined>
  /** The client went away. */
  cancel(): void
}

/** A handler that throws or rejects is answered by `onError`. */
export type HttpHandler = (request: HttpRequest) => HttpReply | Promise<HttpReply>

export type Header = readonly [name: string, value: string]

/** Headers checked and joined once, for many replies that differ in other headers. At least one. */
export class FixedHeaders {
  readonly firstName: string | undefined
  /** The result of `headerBlock`. */
  readonly block: string
  /** All of them as lines that follow other headers. */
  readonly lines: string

  /** @throws TypeError for a header that would split the response */
  constructor(headers: readonly Header[]) {
    this.firstName = headers[0]?.[0]
    this.block = headerBlock(headers)
    this.lines = `\r\n${this.firstName}: ${this.block}`
  }
}

/**
 * The first header's value, followed by all other headers as they are sent.
 * @throws TypeError for a header that would split the response
 */
function headerBlock(headers: readonly Header[]): string {
  let block = ''
  for (let at = 0; at < headers.length; at++) {
    const [name, value] = headers[at]!
    if (breaksHeader(name) || breaksHeader(value))
      throw new TypeError(`header ${JSON.stringify(name)} has a line break`)
    block += at === 0 ? value : `\r\n${name}: ${value}`
  }
  return block
}

/**
 * CR, LF and NUL would let a value continue as another header or response.
 * A loop, because ten searches by regular expression cost 2 µs.
 */
function breaksHeader(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code <= 13 && (code === 13 || code === 10 || code === 0)) return true
  }
  return false
}

/** Status lines by code; a code outside the registry is sent with an empty reason. */
const STATUS_LINES: readonly (string | undefined)[] = Array.from({ length: 600 }, (_, status) =>
  status < 200 ? undefined : `${status} ${STATUS_CODES[status] ?? ''}`,
)

export interface ReplyHead {
  /** Code and reason. */
  status: string
  firstName: string | undefined
  /** The result of `headerBlock`. */
  block: string
  body: string | Buffer
  rest: BodyRest | undefined
}

/**
 * All headers as one value for the first name: one call into the library instead of one per header.
 *
 * @throws TypeError for an unknown status, a missing body, or a line break in a header
 */
export function headOf(reply: HttpReply): ReplyHead {
  const status = STATUS_LINES[reply.status]
  if (status === undefined) throw new TypeError(`no such HTTP status: ${reply.status}`)
  const { headers, fixedHeaders, body, rest } = reply
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) throw new TypeError('the reply has no body')
  if (headers.length === 0)
    return { status, firstName: fixedHeaders?.firstName, block: fixedHeaders?.block ?? '', body, rest }
  const block = headerBlock(headers)
  const all = fixedHeaders ? block + fixedHeaders.lines : block
  return { status, firstName: headers[0]?.[0], block: all, body, rest }
}

/** Headers of every response (docs/decisions/health-and-headers.md). */
const ALWAYS: readonly Header[] = [
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
]

/** Headers by the client's scheme. HSTS must not be sent over plain HTTP (RFC 6797 §7.2). */
export function createSecurityHeaders(hstsMaxAgeSeconds: number): Record<'http' | 'https', readonly Header[]> {
  const hsts: Header = ['Strict-Transport-Security', `max-age=${hstsMaxAgeSeconds}; includeSubDomains`]
  return { http: ALWAYS, https: hstsMaxAgeSeconds > 0 ? [...ALWAYS, hsts] : ALWAYS }
}

const VISIBLE_ASCII = /^[\x21-\x7e]{1,128}$/

/** The client's id when it is safe in a header and a log, else a new one. */
export function requestIdFor(sent: string | undefined): string {
  return sent !== undefined && VISIBLE_ASCII.test(sent) ? sent : randomUUID()
}

export interface ProxySettings {
  enabled: boolean
  /** Addresses and CIDR networks. */
  trustedProxies: readonly string[]
  /** Lower case. */
  forwardedForHeader: string
  forwardedProtoHeader: string
}

/** The client behind trusted proxies. */
export interface EffectiveClient {
  address: string
  scheme: 'http' | 'https'
}

/** @param listenerScheme of the connection itself. */
export function createForwarding(settings: ProxySettings, listenerScheme: 'http' | 'https') {
  const isTrusted = trustedProxies(settings)

  return (request: HttpRequest): EffectiveClient => {
    const { peerAddress } = request
    if (!isTrusted(peerAddress)) return { address: peerAddress, scheme: listenerScheme }
    const proto = request.header(settings.forwardedProtoHeader)?.trim().toLowerCase()
    return {
      address: clientAddress(request.header(settings.forwardedForHeader), peerAddress, isTrusted),
      scheme: proto === 'https' || proto === 'http' ? proto : listenerScheme,
    }
  }
}

/** Whether an address is a proxy whose forwarding headers are trusted. */
export function trustedProxies(settings: ProxySettings): (address: string) => boolean {
  if (!settings.enabled) return () => false
  const trusted = new BlockList()
  for (const entry of settings.trustedProxies) addNetwork(trusted, entry)
  return (address) => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/**
 * The first address from the right that is no trusted proxy. An invalid hop ends the search with a
 * proxy's address, which counts for rate limits but is never pre-approved.
 */
function clientAddress(header: string | undefined, peer: string, isTrusted: (address: string) => boolean): string {
  let client = peer
  const hops = header?.split(',') ?? []
  for (const hop of hops.reverse()) {
    const address = addressOf(hop.trim())
    if (address === undefined) return client
    client = address
    if (!isTrusted(address)) return client
  }
  return client
}

/** Azure, IIS and others append a port, and put brackets around IPv6. */
function addressOf(hop: string): string | undefined {
  const address = hop.replace(/^\[([\da-f]*:[\da-f:.]+)\](?::\d{1,5})?$|^([\d.]+):\d{1,5}$/i, '$1$2')
  return isIP(address) === 0 ? undefined : address
}

function addNetwork(list: BlockList, entry: string): void {
  const [address, prefix] = entry.split('/') as [string, string | undefined]
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  if (prefix === undefined) list.addAddress(address, family)
  else list.addSubnet(address, Number(prefix), family)
}

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
interface HttpCounters {
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
