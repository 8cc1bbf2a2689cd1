/** Requests that are not answered in their first turn, from their begin to reply or abort. */

import type { HttpResponse } from 'uWebSockets.js'
import type { LiveRequest } from './live-request.ts'

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
