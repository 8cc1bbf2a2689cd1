/**
 * Reads requests: refuses those whose length or Host is ambiguous, takes the body as it arrives, within the limits, and
 * calls the handler at its end.
 */

import type { HttpRequest, HttpResponse, TemplatedApp } from 'uWebSockets.js'
import type { BodyMemory } from './body-memory.ts'
import type { ListenOptions } from './http-message.ts'
import { type Exchanges, type HandlerCalls, LiveRequest } from './live-request.ts'
import type { ReplyWriter } from './reply-writer.ts'

/**
 * An excess of a body up to this is read and ignored, so that the client sees the 413.
 * A larger one cuts the connection after the reply.
 */
const LINGER_BYTES = 1024 * 1024

/**
 * A body up to this size, in one piece, is not charged to the memory for bodies.
 * One for each connection takes as much as that memory.
 */
const UNCHARGED_BYTES = 4 * 1024

/**
 * A chunked body of more pieces than this, with a smaller average size, is refused.
 * 87,000 chunks of one byte fit in a read and would take 350 ms, so four times as many end the connection at once.
 */
const MOST_SMALL_CHUNKS = 1024
const SMALL_CHUNK_BYTES = 64

/** The library reuses the memory of a chunk after its callback. */
function copyOf(chunk: ArrayBuffer): Buffer {
  const copy = Buffer.allocUnsafe(chunk.byteLength)
  copy.set(new Uint8Array(chunk))
  return copy
}

function bodyLimit({ maxBodyBytes, maxBodyBytesOf }: ListenOptions, { path }: LiveRequest): number {
  return maxBodyBytesOf?.(path) ?? maxBodyBytes
}

interface Parts {
  options: ListenOptions
  memory: BodyMemory
  exchanges: Exchanges
  calls: HandlerCalls
  replies: ReplyWriter
  counters: { requests: number; aborted: number; tooLarge: number }
}

export class RequestReader {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  routeAll(app: TemplatedApp): void {
    // A route for each known method saves a call for the method's name.
    app.get('/*', (res, req) => this.#begin('GET', false, res, req))
    app.head('/*', (res, req) => this.#begin('HEAD', false, res, req))
    app.post('/*', (res, req) => this.#begin('POST', true, res, req))
    app.any('/*', (res, req) => this.#begin(req.getCaseSensitiveMethod(), true, res, req))
  }

  /** @param takesBody false for GET and HEAD, whose body the library skips. */
  #begin(method: string, takesBody: boolean, res: HttpResponse, req: HttpRequest): void {
    const { options, counters } = this.#parts
    counters.requests++
    const request = new LiveRequest(method, options, res, req)
    // A connection that was reset has no address any more, and no reader.
    if (request.peerAddress === '') {
      counters.aborted++
      res.close()
      return
    }
    const declared = req.getHeader('content-length')
    const chunked = declared === '' && req.getHeader('transfer-encoding') !== ''
    if (declared === '' && !chunked) {
      // The library reads only the first line of a name, so an empty one hides a second length.
      if (!request.detach()) this.#refuseAmbiguous(res, request)
      else if (!this.#isTurnedAway(res, request)) this.#answer(res, request)
      return
    }
    request.isChunked = chunked
    const length = chunked ? undefined : Number(declared)
    // Nobody waits for the end of such a body, and a trailer would be read as a request.
    const isUnsafe = chunked && !takesBody
    if (!request.detach() || isUnsafe) this.#refuseAmbiguous(res, request)
    else if (this.#isTurnedAway(res, request)) return
    else if (!takesBody || length === 0) this.#answer(res, request)
    else if (length !== undefined && length > bodyLimit(options, request)) this.#refuseLarge(res, request, length)
    else this.#collect(res, request, length)
  }

  /** @returns true when `admit` has refused the request, with a reply sent or pending. */
  #isTurnedAway(res: HttpResponse, request: LiveRequest): boolean {
    const { options, calls, replies } = this.#parts
    if (options.admit === undefined) return false
    const refusal = calls.run(request, options.admit)
    if (refusal === undefined) return false
    replies.send(res, request, refusal)
    return true
  }

  #answer(res: HttpResponse, request: LiveRequest): void {
    const { options, calls, replies } = this.#parts
    replies.send(res, request, calls.run(request, options.handler))
  }

  /**
   * After an ambiguous length or Host a smuggled request may follow (RFC 9112 §11.2), which the library
   * would parse even behind a closing reply. A pending reply makes it close the connection instead.
   */
  #refuseAmbiguous(res: HttpResponse, request: LiveRequest): void {
    const { options, exchanges, calls, replies } = this.#parts
    replies.finishBy(exchanges.begin(res, request), calls.guard(request, options.badRequest), true)
  }

  /** Replies before the body arrives, as `Expect: 100-continue` wants. */
  #refuseLarge(res: HttpResponse, request: LiveRequest, declared: number): void {
    const { options, exchanges, calls, replies, counters } = this.#parts
    counters.tooLarge++
    const isLong = declared > bodyLimit(options, request) + LINGER_BYTES
    replies.finishBy(exchanges.begin(res, request), calls.guard(request, options.tooLarge), isLong)
  }

  /**
   * A short body in one piece, the usual case, is copied once and not charged; others are gathered.
   * A chunked body over the limit is not stored, and refused at its end or `LINGER_BYTES` later.
   */
  #collect(res: HttpResponse, request: LiveRequest, declared: number | undefined): void {
    const { options, exchanges, calls, replies, counters } = this.#parts
    const limit = bodyLimit(options, request)
    const exchange = exchanges.begin(res, request)
    let size = 0
    let pieces = 0
    let isRefused = false
    res.onData((chunk, isLast) => {
      if (exchange.over) return
      if (++pieces > 4 * MOST_SMALL_CHUNKS && isRefused) res.close()
      if (isRefused) return
      const isWhole = isLast && size === 0
      size += chunk.byteLength
      if (request.isChunked && pieces > MOST_SMALL_CHUNKS && size < pieces * SMALL_CHUNK_BYTES) {
        isRefused = true
        replies.finishBy(exchange, calls.guard(request, options.badRequest), true)
        return
      }
      if (size > limit) {
        request.dropBody()
        if (!isLast && size <= limit + LINGER_BYTES) return
        counters.tooLarge++
        isRefused = true
        replies.finishBy(exchange, calls.guard(request, options.tooLarge), !isLast)
        return
      }
      if (isWhole && size <= UNCHARGED_BYTES) request.body = copyOf(chunk)
      else if (chunk.byteLength > 0 && !this.#gather(request, chunk, declared)) {
        // The rest of a declared body is bounded and skipped.
        isRefused = true
        replies.finishBy(exchange, calls.guard(request, options.busy), false)
        return
      }
      if (!isLast) return
      if (request.gathered !== undefined) request.body = request.gathered.bytes
      const reply = calls.run(request, options.handler)
      replies.complete(exchange, reply)
    })
  }

  /** @returns false when there is no memory for this piece of a body. */
  #gather(request: LiveRequest, chunk: ArrayBuffer, declared: number | undefined): boolean {
    const { memory, options } = this.#parts
    request.gathered ??= memory.begin(request.peerAddress, declared ?? bodyLimit(options, request))
    return request.gathered.add(new Uint8Array(chunk))
  }
}
