/**
 * A request as the handler sees it, in its first turn and after.
 *
 * The library's request object is readable only in the first turn. `LiveRequest` reads from it, and
 * copies the kept headers only when the reply comes later.
 */

import type { GatheredBody } from './body-memory.ts'
import { PeerAddresses } from './client-address.ts'
import type { HttpRequest } from './message.ts'
import type { ListenOptions } from './server.ts'

/** The part of the library's request that is used. */
interface RequestHead {
  getUrl(): string
  getQuery(): string | undefined
  /** The first line of that name; empty when there is none. */
  getHeader(lowerCaseName: string): string
  forEach(visit: (name: string, value: string) => void): void
}

/** The part of the library's response that is used. */
interface RemoteEnd {
  getRemoteAddress(): ArrayBuffer
}

type KeptHeaders = Pick<ListenOptions, 'keptHeaders' | 'listHeaders'>

/** RFC 9110 §8.6. `Number` alone would also accept other notations. */
const LENGTH = /^\d+$/
/** uri-host and port (RFC 9110 §7.2, RFC 3986 §3.2.2). */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/
/** The option in a list (RFC 9112 §9.6). */
const CLOSE = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i
const NO_BODY = Buffer.alloc(0)

const addresses = new PeerAddresses()

/** Text form of the other end's address; empty once its socket is closed. */
export function peerAddressOf(res: RemoteEnd): string {
  return addresses.text(new Uint8Array(res.getRemoteAddress()))
}

/** Reads from the library's object until `detach` copies the kept headers. */
export class LiveRequest implements HttpRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  body: Buffer = NO_BODY
  isOver = false
  /**
   * The library takes what follows the last chunk for the next request, even a trailer (RFC 9112 §7.1.2, §11.2). So
   * the reply comes in a later turn and ends the connection.
   */
  isChunked = false
  /** The client wants the connection to end (RFC 9112 §9.6), as far as the copied headers say. */
  asksToClose = false
  /**
   * The library then ends the connection without saying so in the reply. It takes a first Connection of five octets
   * for `close`, and knows no lists.
   */
  isClosedByLibrary = false
  /** Holds the memory of the body until it is dropped, at the latest with the reply. */
  gathered: GatheredBody | undefined
  #names: readonly string[]
  #lists: readonly string[]
  #req: RequestHead | undefined
  #res: RemoteEnd | undefined
  #values: string[] | undefined
  #address: string | undefined

  constructor(method: string, kept: KeptHeaders, res: RemoteEnd, req: RequestHead) {
    this.method = method
    this.path = req.getUrl()
    this.query = req.getQuery() ?? ''
    this.#names = kept.keptHeaders
    this.#lists = kept.listHeaders ?? []
    this.#req = req
    this.#res = res
  }

  header(name: string): string | undefined {
    const index = this.#names.indexOf(name)
    if (index < 0) return undefined
    // The library returns only the first line of a name.
    if (this.#values === undefined && this.#lists.includes(name)) this.#copyHeaders()
    const value = this.#values === undefined ? this.#req?.getHeader(name) : this.#values[index]
    return value === '' ? undefined : value
  }

  get peerAddress(): string {
    this.#address ??= this.#res === undefined ? '' : peerAddressOf(this.#res)
    return this.#address
  }

  /**
   * Copies the kept headers in the first turn, for a request that outlives it. Idempotent.
   * The pass also finds a second Content-Length (RFC 9112 §6.3) or Host (§3.2), which the library
   * ignores.
   *
   * @returns false when two lengths differ, one is no number, the transfer coding is not plain
   *   chunked (RFC 9112 §6.1), or there is not one valid Host
   */
  detach(): boolean {
    if (this.#req === undefined) return true
    const consistent = this.#copyHeaders()
    void this.peerAddress
    this.release()
    return consistent
  }

  dropBody(): void {
    this.body = NO_BODY
    this.gathered?.release()
    this.gathered = undefined
  }

  /** @returns false when the length of the body or the Host is ambiguous */
  #copyHeaders(): boolean {
    const values = new Array<string>(this.#names.length).fill('')
    let length: string | undefined
    let host: string | undefined
    let consistent = true
    let connection: string | undefined
    this.#req?.forEach((name, value) => {
      const index = this.#names.indexOf(name)
      if (index >= 0) {
        if (values[index] === '') values[index] = value
        else if (value !== '' && this.#lists.includes(name)) values[index] += `, ${value}`
      }
      if (name === 'connection') {
        this.isClosedByLibrary ||= connection === undefined && value.length === 5
        this.asksToClose ||= this.isClosedByLibrary || CLOSE.test(value)
        connection = value
      }
      // The library takes every coding for chunked; a proxy may have read it otherwise.
      if (name === 'transfer-encoding' && value.toLowerCase() !== 'chunked') consistent = false
      if (name === 'host') {
        if (host !== undefined || !HOST.test(value)) consistent = false
        host = value
      }
      if (name !== 'content-length') return
      if (!LENGTH.test(value) || (length !== undefined && length !== value)) consistent = false
      length = value
    })
    this.#values = values
    return consistent
  }

  /** The library's objects must not be touched from here on. */
  release(): void {
    this.#req = undefined
    this.#res = undefined
  }
}
