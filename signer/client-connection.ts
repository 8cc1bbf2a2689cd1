/** One client connection: handshake, frames in, replies out, and protocol errors of the peer. */

import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { type Counters, noteError } from './counters.ts'
import type { MethodHandlers } from './methods/method-handler.ts'
import { decodeMeta, encodeError, encodeFrame, type Frame, FrameReader, KIND } from './protocol/frames.ts'
import { checkProof, encodeHello, encodeWelcome, HANDSHAKE_MAX_FRAME_BYTES, NONCE_BYTES } from './protocol/handshake.ts'
import { METHODS, type MethodName, methodOfCode } from './protocol/methods.ts'
import { SignerProtocolError, SignerRefusal, SignerStopping, SignerUnavailable } from './protocol/signer-errors.ts'

export interface ConnectionLimits {
  frameBytes: number
  /** Over all connections of the daemon. A further request gets `unavailable`. */
  requestsInFlight: number
  handshakeTimeoutMs: number
}

export interface ConnectionContext {
  secret: Buffer
  limits: ConnectionLimits
  handlers: MethodHandlers
  /** Called when the connection has closed, to free what belongs to it. */
  onClosed?(connection: object): void
  counters: Counters
  log: Logger
}

/** Time for a peer to read the last replies. */
const LINGER_MS = 1000

export class Connection {
  readonly #socket: Socket
  readonly #context: ConnectionContext
  readonly #reader = new FrameReader(HANDSHAKE_MAX_FRAME_BYTES)
  readonly #serverNonce = randomBytes(NONCE_BYTES)
  readonly #handshakeTimer: NodeJS.Timeout
  #authenticated = false
  #draining = false
  #inFlight = 0
  #out: Buffer[] = []

  constructor(socket: Socket, context: ConnectionContext) {
    this.#socket = socket
    this.#context = context
    this.#handshakeTimer = setTimeout(() => this.#reject('no handshake in time'), context.limits.handshakeTimeoutMs)
    socket.on('data', (chunk: Buffer) => this.#onData(chunk))
    socket.on('drain', () => socket.resume())
    socket.on('error', (error) => context.log.debug({ err: error }, 'signer connection failed'))
    socket.on('close', () => {
      clearTimeout(this.#handshakeTimer)
      context.onClosed?.(this)
    })
    this.#send(encodeHello(this.#serverNonce))
  }

  /** Whether the peer has proven that it holds the secret. */
  get isAuthenticated(): boolean {
    return this.#authenticated
  }

  /** Answers requests in flight, refuses new ones, and closes. */
  drain(): void {
    this.#draining = true
    this.#closeWhenDrained()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #onData(chunk: Buffer): void {
    try {
      this.#reader.push(chunk, (frame) => this.#onFrame(frame))
    } catch (error) {
      this.#reject(error instanceof Error ? error.message : String(error))
    }
  }

  #onFrame(frame: Frame): void {
    if (!this.#authenticated) this.#welcome(frame)
    else if (frame.kind === KIND.request) this.#onRequest(frame)
    else throw new SignerProtocolError(`frame of kind ${frame.kind} instead of a request`)
  }

  #welcome(frame: Frame): void {
    const { secret, limits } = this.#context
    const clientNonce = checkProof(secret, this.#serverNonce, frame)
    clearTimeout(this.#handshakeTimer)
    this.#authenticated = true
    this.#reader.maxFrameBytes = limits.frameBytes
    this.#send(encodeWelcome(secret, this.#serverNonce, clientNonce))
  }

  #onRequest(frame: Frame): void {
    const { counters, limits } = this.#context
    const method = methodOfCode(frame.method)
    if (this.#draining) {
      this.#send(encodeError(frame.id, new SignerStopping()))
    } else if (counters.inFlight >= limits.requestsInFlight) {
      this.#send(encodeError(frame.id, new SignerUnavailable('the signer is busy')))
    } else if (!method) {
      this.#send(encodeError(frame.id, new SignerProtocolError(`unknown method ${frame.method}`)))
    } else {
      void this.#answer(method, frame)
    }
  }

  async #answer(method: MethodName, frame: Frame): Promise<void> {
    const { counters } = this.#context
    this.#inFlight += 1
    counters.inFlight += 1
    try {
      this.#send(await this.#run(method, frame))
    } catch (error) {
      this.#noteFailure(method, error)
      this.#send(encodeError(frame.id, error))
    } finally {
      counters.inFlight -= 1
      this.#inFlight -= 1
      if (this.#draining) this.#closeWhenDrained()
    }
  }

  async #run<M extends MethodName>(method: M, { id, meta, payload, timeoutMs }: Frame): Promise<Buffer> {
    const params = decodeMeta<Parameters<MethodHandlers[M]>[0]>(METHODS[method].params as never, meta)
    // The table is `createHandlers` in daemon.ts.
    const handler = this.#context.handlers[method] as (...args: unknown[]) => ReturnType<MethodHandlers[M]>
    const reply = await handler(params, payload, { deadlineAt: performance.now() + timeoutMs, connection: this })
    return encodeFrame({ kind: KIND.result, id, meta: reply.meta, payload: reply.payload })
  }

  #noteFailure(method: MethodName, error: unknown): void {
    const { counters, log } = this.#context
    if (error instanceof SignerRefusal) {
      counters.refusals += 1
      log.warn({ method, reason: error.message }, 'refused to sign')
      return
    }
    noteError(counters, error)
    log[error instanceof SignerUnavailable ? 'warn' : 'error']({ method, err: error }, 'request failed')
  }

  /**
   * Sends the replies of one turn in one write. While a peer does not read, reading from it pauses.
   */
  #send(frame: Buffer): void {
    if (this.#out.push(frame) > 1) return
    queueMicrotask(() => {
      const frames = this.#out.splice(0)
      if (!this.#socket.writable) return
      if (!this.#socket.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames))) this.#socket.pause()
    })
  }

  /** Reports the reason and closes only this connection. */
  #reject(reason: string): void {
    this.#context.log.warn({ reason }, 'signer connection closed for a protocol error')
    clearTimeout(this.#handshakeTimer)
    this.#socket.removeAllListeners('data')
    this.#socket.resume()
    this.#send(encodeError(0, new SignerProtocolError(reason)))
    this.#end()
  }

  #closeWhenDrained(): void {
    if (this.#inFlight > 0) return
    this.#end()
  }

  /** Closes after the queued replies of this turn. A timer cuts a peer that does not read. */
  #end(): void {
    queueMicrotask(() => this.#socket.end(() => this.#socket.destroy()))
    setTimeout(() => this.#socket.destroy(), LINGER_MS).unref()
  }
}
