/** Takes the body of a request as it arrives, within the limits, and calls the handler at its end. */

import type { HttpResponse } from 'uWebSockets.js'
import type { BodyMemory } from './body-memory.ts'
import type { ListenOptions } from './http-server.ts'
import type { Exchanges, HandlerCalls, LiveRequest } from './live-request.ts'
import type { ReplyWriter } from './reply-writer.ts'

/**
 * An excess of a body up to this is read and ignored, so that the client sees the 413.
 * A larger one cuts the connection after the reply.
 */
export const LINGER_BYTES = 1024 * 1024

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

export function bodyLimit({ maxBodyBytes, maxBodyBytesOf }: ListenOptions, { path }: LiveRequest): number {
  return maxBodyBytesOf?.(path) ?? maxBodyBytes
}

interface Parts {
  options: ListenOptions
  memory: BodyMemory
  exchanges: Exchanges
  calls: HandlerCalls
  replies: ReplyWriter
  counters: { tooLarge: number }
}

export class BodyCollector {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /**
   * A short body in one piece, the usual case, is copied once and not charged; others are gathered.
   * A chunked body over the limit is not stored, and refused at its end or `LINGER_BYTES` later.
   */
  collect(res: HttpResponse, request: LiveRequest, declared: number | undefined): void {
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
