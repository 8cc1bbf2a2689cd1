/**
 * Writes replies: at once, after the turn, or in pieces as the socket takes them.
 * The rules of the library that it keeps are listed in `uws.ts`.
 */

import type { HttpResponse } from 'uWebSockets.js'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type BodyRest, type HttpReply, headOf, type ReplyHead } from './http-message.ts'
import { BARE_500, type Exchange, type Exchanges, type HandlerCalls, type LiveRequest } from './live-request.ts'

/** Larger reply bodies go to the socket in pieces, not into its buffer at once. */
const STREAMED_REPLY_BYTES = 64 * 1024

/**
 * Bytes that one turn of the event loop hands to a socket; they take well below a millisecond.
 * Without a bound, 42 MB through TLS held up all other requests for 60 ms.
 */
const TURN_BYTES = 256 * 1024
/** Until its end `cork` gathers shorter pieces, and nothing shows whether the socket takes them. */
const CORK_BYTES = 16 * 1024
/** The library has closed a connection that takes nothing by then. */
const LONGEST_IDLE_MS = 12_000

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

function bodilessReplies(): number {
  const { least, most } = BODILESS_REPLIES
  return least + Math.floor(Math.random() * (most - least))
}

/** The next piece for the socket. A string is short and ASCII, so it is one piece. */
function pieceOf(body: string | Buffer, offset: number): string | Buffer {
  if (typeof body === 'string') return body.slice(offset)
  const isLast = body.length - offset <= TURN_BYTES + CORK_BYTES
  return body.subarray(offset, isLast ? body.length : offset + TURN_BYTES)
}

export class ReplyWriter {
  /** Every connection ends with its next reply. */
  isDraining = false
  readonly #exchanges: Exchanges
  readonly #calls: HandlerCalls
  #repliesOfTurn = 0
  #bodilessLeft = bodilessReplies()

  constructor(exchanges: Exchanges, calls: HandlerCalls) {
    this.#exchanges = exchanges
    this.#calls = calls
  }

  send(res: HttpResponse, request: LiveRequest, reply: HttpReply | Promise<HttpReply>): void {
    if (reply instanceof Promise || !this.#isPrompt(request, reply)) {
      request.detach()
      this.finishLater(this.#exchanges.begin(res, request), reply)
    } else {
      request.release()
      this.#write(res, request, reply, false)
    }
  }

  /** The handler's reply to a request whose body has arrived. */
  complete(exchange: Exchange, reply: HttpReply | Promise<HttpReply>): void {
    if (reply instanceof Promise || !this.#isPrompt(exchange.request, reply)) this.finishLater(exchange, reply)
    else this.finish(exchange, reply)
  }

  /**
   * Counts a reply that is ready in the turn of its request.
   * @returns false when it has to wait for the end of the turn
   */
  #isPrompt(request: LiveRequest, reply: HttpReply): boolean {
    if (this.#endsConnection(request, reply)) return false
    if (this.#repliesOfTurn === 0)
      setImmediate(() => {
        this.#repliesOfTurn = 0
      })
    return ++this.#repliesOfTurn <= PROMPT_REPLIES
  }

  /**
   * Such a reply is sent in a later turn, also when its promise has settled: behind one that is sent in the turn of its
   * request the library takes the next request of the same read (RFC 9112 §9.6, §11.2).
   */
  #endsConnection(request: LiveRequest, reply?: HttpReply, thenClose = false): boolean {
    return thenClose || this.isDraining || request.isChunked || request.asksToClose || reply?.closes === true
  }

  /** Sends a refusal. A pending one stops reading the body, so its connection ends after it. */
  finishBy(exchange: Exchange, reply: HttpReply | Promise<HttpReply>, thenClose: boolean): void {
    if (reply instanceof Promise) {
      exchange.res.pause()
      this.finishLater(exchange, reply, true)
    } else if (this.#endsConnection(exchange.request, reply, thenClose)) this.finishLater(exchange, reply, thenClose)
    else this.finish(exchange, reply)
  }

  /** When the promise has settled, and not in this turn. */
  finishLater(exchange: Exchange, reply: HttpReply | Promise<HttpReply>, thenClose = false): void {
    if (!(reply instanceof Promise)) {
      setImmediate(() => this.finish(exchange, reply, thenClose))
      return
    }
    const finishSettled = (settled: HttpReply) => {
      if (this.#endsConnection(exchange.request, settled, thenClose)) this.finishLater(exchange, settled, thenClose)
      else this.finish(exchange, settled)
    }
    // After an abort no reply is sent, but `onError` still logs the failure.
    reply.then(finishSettled, (error) => finishSettled(this.#calls.errorReply(error, exchange.request)))
  }

  finish(exchange: Exchange, reply: HttpReply, thenClose = false): void {
    if (exchange.over) {
      reply.rest?.cancel()
      return
    }
    const { res, request } = exchange
    res.cork(() => {
      if (this.#write(res, request, reply, thenClose, exchange)) this.#exchanges.settle(exchange)
    })
  }

  /** @returns false while the rest of a large body follows; `exchange` is settled after it */
  #write(res: HttpResponse, request: LiveRequest, reply: HttpReply, thenClose: boolean, exchange?: Exchange): boolean {
    const { status, block, firstName, body, rest } = this.#head(reply, request)
    const close = this.#endsConnection(request, reply, thenClose)
    if (status !== '200 OK') res.writeStatus(status)
    if (firstName !== undefined) res.writeHeader(firstName, block)

    const hasNoLength = status.startsWith('204') || status.startsWith('304')
    if (rest && !hasNoLength && request.method !== 'HEAD') {
      if (close) res.writeHeader('Connection', 'close')
      void this.#pour(exchange ?? this.#exchanges.begin(res, request), body, rest, close)
      return false
    }
    rest?.cancel()
    if (hasNoLength || request.method === 'HEAD') {
      const length = hasNoLength || rest ? undefined : Buffer.byteLength(body)
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
      if (request.isClosedByLibrary) res.writeHeader('Connection', 'close')
      res.end(octets, close)
      return true
    }
    if (close) res.writeHeader('Connection', 'close')
    return this.#stream(res, request, octets, close, exchange)
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
  #endHeadAndClose(res: HttpResponse, request: LiveRequest, length: number | undefined, pending?: Exchange): boolean {
    const exchange = pending ?? this.#exchanges.begin(res, request)
    if (length !== undefined) res.writeHeader('Content-Length', String(length))
    res.writeHeader('Connection', 'close')
    res.writeHeader('Date', `${new Date().toUTCString()}\r\n`)
    this.#closeAfterTurn(exchange)
    return false
  }

  #closeAfterTurn(exchange: Exchange): void {
    setImmediate(() => {
      if (exchange.over) return
      this.#exchanges.settle(exchange)
      exchange.res.close()
    })
  }

  #stream(res: HttpResponse, request: LiveRequest, body: string | Buffer, ends: boolean, exchange?: Exchange): boolean {
    // Behind a whole reply the library reads the next request. To it, one that closes is an octet short.
    const total = body.length + (ends ? 1 : 0)
    const [accepted, complete] = res.tryEnd(ends ? body.slice(0, 1) : pieceOf(body, 0), body.length)
    if (complete) return true
    const pending = exchange ?? this.#exchanges.begin(res, request)
    const sendMore = () =>
      setImmediate(() => {
        if (!pending.over) res.cork(() => next(res.getWriteOffset()))
      })
    const next = (offset: number): boolean => {
      if (offset === body.length) {
        this.#closeAfterTurn(pending)
        return true
      }
      const [taken, done] = res.tryEnd(pieceOf(body, offset), total)
      if (done) this.#exchanges.settle(pending)
      else if (taken) sendMore()
      return taken
    }
    // Continues when a full socket has room again.
    res.onWritable(next)
    if (accepted) sendMore()
    return false
  }

  async #pour(exchange: Exchange, first: string | Buffer, rest: BodyRest, close: boolean): Promise<void> {
    const { res, request } = exchange
    try {
      if (!(await pourBody(exchange, first, rest))) return
    } catch (error) {
      this.#calls.errorReply(error, request)
      if (!exchange.over) res.close()
      return
    }
    exchange.onOver = undefined
    if (close) {
      // Writes the last chunk as a header. The library's call for a closing end would add a header to the chunks.
      res.cork(() => res.writeHeader('\r\n0\r\nX-End', '1\r\n'))
      if (exchange.isSlow) this.#closeWhenIdle(exchange)
      else this.#closeAfterTurn(exchange)
      return
    }
    res.cork(() => res.end())
    this.#exchanges.settle(exchange)
  }

  /** A close drops what the socket has not taken, and nothing shows when it has taken the last chunk. */
  #closeWhenIdle(exchange: Exchange): void {
    const timer = setTimeout(() => exchange.res.close(), LONGEST_IDLE_MS)
    exchange.onRoom = () => timer.refresh()
    exchange.res.onAborted(() => {
      clearTimeout(timer)
      this.#exchanges.settle(exchange)
    })
  }

  /** Faults of a reply are found here, before its first byte is written. */
  #head(reply: HttpReply, request: LiveRequest): ReplyHead {
    try {
      return headOf(reply)
    } catch (error) {
      try {
        return headOf(this.#calls.errorReply(error, request))
      } catch {
        return headOf(BARE_500)
      }
    }
  }
}

/** Head and piece stay below the 16 KiB that `cork` gathers: behind a full socket the library loses a longer write. */
const CORKED_BYTES = 12 * 1024
/** Less than a full socket takes when it has room again, so that what the library holds for it shrinks. */
const PROBE_BYTES = 1024

/**
 * Sends a body of unknown length, a piece whenever the socket has room.
 * @returns false when the client went away; the caller ends the reply otherwise
 */
export async function pourBody(exchange: Exchange, first: string | Buffer, rest: BodyRest): Promise<boolean> {
  const { res } = exchange
  exchange.onOver = () => {
    rest.cancel()
    exchange.onRoom?.()
  }
  res.onWritable(() => {
    // The end of a `cork` sends what the library holds; with a handler it does not do so itself.
    res.cork(() => undefined)
    exchange.onRoom?.()
    return true
  })
  // The head's `cork` ends first.
  await nextTurn()
  let isFull = false
  for (let piece: string | Buffer | undefined = first; piece !== undefined; piece = await rest.next()) {
    const octets = typeof piece === 'string' ? Buffer.from(piece) : piece
    for (let from = 0, to = 0; from < octets.length && !exchange.over; from = to) {
      // The last octet goes alone: a write tells whether the socket has taken those before it.
      to = Math.min(from + (isFull ? PROBE_BYTES : CORKED_BYTES), Math.max(octets.length - 1, from + 1))
      res.cork(() => {
        isFull = !res.write(octets.subarray(from, to))
      })
      if (!isFull) continue
      exchange.isSlow = true
      await new Promise<void>((resolve) => (exchange.onRoom = resolve))
    }
    // A cancelled stream has no next piece.
    if (exchange.over) return false
  }
  return !exchange.over
}
