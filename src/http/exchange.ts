/** The life of a request: its handler is called, and it ends with a reply or an abort. */

import type { HttpResponse } from 'uWebSockets.js'
import type { LiveRequest } from './live-request.ts'
import type { BodyRest, HttpReply, HttpRequest } from './message.ts'
import type { ListenOptions } from './server.ts'

/** A request that is not answered in its first turn. */
export interface Exchange {
  res: HttpResponse
  request: LiveRequest
  /** Answered or aborted: `res` must not be touched any more. */
  over: boolean
  /** Called when it is over. */
  onOver?: (() => void) | undefined
}

export class Exchanges {
  inFlight = 0
  readonly #onAborted: (request: LiveRequest) => void

  constructor(onAborted: (request: LiveRequest) => void) {
    this.#onAborted = onAborted
  }

  begin(res: HttpResponse, request: LiveRequest): Exchange {
    const exchange: Exchange = { res, request, over: false }
    this.inFlight++
    res.onAborted(() => {
      if (exchange.over) return
      this.settle(exchange)
      this.#onAborted(request)
    })
    return exchange
  }

  settle(exchange: Exchange): void {
    exchange.over = true
    exchange.request.isOver = true
    exchange.request.dropBody()
    this.inFlight--
    exchange.onOver?.()
  }
}

export const BARE_500: HttpReply = { status: 500, headers: [], body: '' }
const BARE_503: HttpReply = { status: 503, headers: [['Retry-After', '1']], body: '' }

/** Calls of the application's handlers; one that throws becomes a reply. */
export class HandlerCalls {
  readonly #onError: ListenOptions['onError']
  readonly #counters: { handlerErrors: number }

  constructor(onError: ListenOptions['onError'], counters: { handlerErrors: number }) {
    this.#onError = onError
    this.#counters = counters
  }

  run<R>(request: LiveRequest, handler: (request: HttpRequest) => R): R | HttpReply {
    try {
      return handler(request)
    } catch (error) {
      return this.errorReply(error, request)
    }
  }

  errorReply(error: unknown, request: LiveRequest): HttpReply {
    this.#counters.handlerErrors++
    return this.guard(request, () => this.#onError(error, request))
  }

  /** For a handler that makes an error's reply. */
  guard<R>(request: LiveRequest, make: ((request: HttpRequest) => R) | undefined): R | HttpReply {
    try {
      return make?.(request) ?? BARE_503
    } catch {
      // The error reply itself failed; the client still gets an answer.
      this.#counters.handlerErrors++
      return BARE_500
    }
  }
}

/**
 * Sends a body of unknown length, a piece whenever the socket has room.
 * @returns false when the client went away; the caller ends the reply otherwise
 */
export async function pourBody(exchange: Exchange, first: string | Buffer, rest: BodyRest): Promise<boolean> {
  const { res } = exchange
  let onRoom = (): void => undefined
  exchange.onOver = () => {
    rest.cancel()
    onRoom()
  }
  res.onWritable(() => {
    onRoom()
    return true
  })
  for (let piece: string | Buffer | undefined = first; piece !== undefined; piece = await rest.next()) {
    if (exchange.over) return false
    const octets = piece
    let hasRoom = true
    if (octets.length > 0)
      res.cork(() => {
        hasRoom = res.write(octets)
      })
    if (!hasRoom) await new Promise<void>((resolve) => (onRoom = resolve))
    // A cancelled stream has no next piece.
    if (exchange.over) return false
  }
  return !exchange.over
}
