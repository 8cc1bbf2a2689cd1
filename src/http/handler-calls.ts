/** Calls of the application's handlers; one that throws becomes a reply. */

import type { LiveRequest } from './live-request.ts'
import type { HttpReply, HttpRequest } from './message.ts'
import type { ListenOptions } from './server.ts'

export const BARE_500: HttpReply = { status: 500, headers: [], body: '' }
const BARE_503: HttpReply = { status: 503, headers: [['Retry-After', '1']], body: '' }

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
