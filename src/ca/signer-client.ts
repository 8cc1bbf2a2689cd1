/**
 * One connection to the signer daemon: handshake, pipelined requests, deadlines, reconnection.
 *
 * Without a connection, a request waits for one until its deadline. If the connection drops, the request is sent once
 * more; signing the same bytes twice is harmless. So a signer restarted within the deadline fails no order. What a
 * stopping signer refuses waits likewise. A second loss fails the request as SignerAnswerLost, because the request may
 * have crashed the signer. Different secrets on the two sides fail all waiting requests at once.
 */

import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import {
  DEFAULT_MAX_FRAME_BYTES,
  decodeError,
  decodeMeta,
  encodeFrame,
  type Frame,
  FrameReader,
  KIND,
} from '../../signer/protocol/frames.ts'
import { checkWelcome, decodeHello, encodeProof, NONCE_BYTES } from '../../signer/protocol/handshake.ts'
import { METHODS, type MethodName, type MethodParams, type MethodResult } from '../../signer/protocol/methods.ts'
import {
  SecretMismatch,
  SignerAnswerLost,
  SignerProtocolError,
  SignerRefusal,
  SignerStopping,
  SignerUnavailable,
} from '../../signer/protocol/signer-errors.ts'

export interface SignerDescription {
  version: string
  /** `chain` holds DER certificates, the issuer's own first. */
  issuers: readonly {
    id: string
    algorithm: string
    chain: readonly Buffer[]
    alternateChains: readonly (readonly Buffer[])[]
  }[]
}

export interface SignerClientOptions {
  socketPath: string
  /** See `readSharedSecret`. */
  secret: Buffer
  /** Requests sent or waiting for the connection; one more fails at once as SignerUnavailable. */
  maxInFlight?: number
  maxFrameBytes?: number
  handshakeTimeoutMs?: number
  /** First and longest pause between attempts to connect; it doubles in between. */
  backoffMs?: { first: number; longest: number }
  /**
   * Called after every handshake with the answer to `describe`. Throwing rejects the daemon and closes the connection.
   */
  onConnect?(description: SignerDescription): void
  /** Called for a lost connection, and for every failed attempt to connect. */
  onDisconnect?(reason: Error): void
}

interface Reply<M extends MethodName> {
  meta: MethodResult<M>
  payload: Buffer
}

interface Pending {
  frame: Buffer
  method: MethodName
  deadlineAt: number
  /** Number of connections it was sent over, and when over the last one. */
  sent: number
  sentAt: number
  resolve(reply: Reply<MethodName>): void
  reject(error: Error): void
}

type State = 'hello' | 'welcome' | 'describe' | 'ready' | 'disconnected' | 'closed'

/** One timer checks the deadlines of all requests, this often. */
const DEADLINE_TICK_MS = 20
const DESCRIBE_ID = 0xffffffff
const MAX_SENT = 2

export class SignerClient {
  readonly #options: Required<Omit<SignerClientOptions, 'onConnect' | 'onDisconnect'>> &
    Pick<SignerClientOptions, 'onConnect' | 'onDisconnect'>
  #state: State = 'disconnected'
  #socket: Socket | undefined
  #reader = new FrameReader(0)
  #nonces: { server: Buffer; client: Buffer } = { server: Buffer.alloc(0), client: Buffer.alloc(0) }
  #lastId = 0
  /** Keyed by id; insertion order is the order of sending. */
  readonly #pending = new Map<number, Pending>()
  #out: Buffer[] = []
  #failedAttempts = 0
  #reconnectTimer: NodeJS.Timeout | undefined
  #handshakeTimer: NodeJS.Timeout | undefined
  #deadlineTimer: NodeJS.Timeout | undefined
  #lastFailure: Error | undefined
  /** When the newest bytes came. */
  #heardAt = 0

  /** Starts connecting at once, and retries until `close`. */
  constructor(options: SignerClientOptions) {
    this.#options = {
      maxInFlight: 1024,
      maxFrameBytes: DEFAULT_MAX_FRAME_BYTES,
      handshakeTimeoutMs: 5000,
      backoffMs: { first: 50, longest: 2000 },
      ...options,
    }
    this.#connect()
  }

  /** The daemon's current answer to `describe`. @throws like `call` */
  async describe(timeoutMs: number): Promise<SignerDescription> {
    const { meta, payload } = await this.call('describe', {}, { timeoutMs })
    return readDescription(meta, payload)
  }

  get connected(): boolean {
    return this.#state === 'ready'
  }

  /** Why the newest attempt to connect failed; undefined while connected, and before a first failure. */
  get failure(): Error | undefined {
    return this.#state === 'ready' ? undefined : this.#lastFailure
  }

  /** Requests that have no answer yet. */
  get inFlight(): number {
    return this.#pending.size
  }

  /** @throws SignerRefusal, SignerUnavailable, SignerProtocolError */
  call<M extends MethodName>(
    method: M,
    params: MethodParams<M>,
    { timeoutMs, payload }: { timeoutMs: number; payload?: Buffer },
  ): Promise<Reply<M>> {
    if (this.#state === 'closed') return Promise.reject(new SignerUnavailable('the signer client is closed'))
    if (this.#pending.size >= this.#options.maxInFlight) {
      return Promise.reject(new SignerUnavailable('too many requests wait for the signer'))
    }
    const id = this.#nextId()
    const wait = Math.max(0, Math.min(Math.ceil(timeoutMs), 0xffffffff))
    const { code } = METHODS[method]
    const frame = encodeFrame({ kind: KIND.request, id, method: code, timeoutMs: wait, meta: params, payload })
    if (frame.length > this.#options.maxFrameBytes) {
      return Promise.reject(new SignerRefusal(`a request of ${frame.length} bytes is too long for the signer`))
    }
    return new Promise<Reply<MethodName>>((resolve, reject) => {
      const pending: Pending = {
        frame,
        method,
        deadlineAt: performance.now() + wait,
        sent: 0,
        sentAt: 0,
        resolve,
        reject,
      }
      this.#pending.set(id, pending)
      // setImmediate runs after pending input, so that a delayed thread first reads the answers that arrived.
      this.#deadlineTimer ??= setInterval(() => setImmediate(() => this.#expire()), DEADLINE_TICK_MS)
      if (this.#state === 'ready') this.#sendRequest(pending)
    }) as Promise<Reply<M>>
  }

  /** Fails the requests in flight and closes the connection for good. */
  async close(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    clearTimeout(this.#reconnectTimer)
    clearTimeout(this.#handshakeTimer)
    this.#fail(this.#pending, 'the signer client was closed')
    const socket = this.#socket
    if (!socket || socket.closed) return
    await new Promise<void>((resolve) => {
      socket.once('close', () => resolve())
      socket.destroy()
    })
  }

  #nextId(): number {
    do this.#lastId = (this.#lastId % (DESCRIBE_ID - 1)) + 1
    while (this.#pending.has(this.#lastId))
    return this.#lastId
  }

  #connect(): void {
    const socket = connect(this.#options.socketPath)
    this.#socket = socket
    this.#state = 'hello'
    this.#reader = new FrameReader(this.#options.maxFrameBytes)
    this.#handshakeTimer = setTimeout(
      () => socket.destroy(new Error('the signer did not finish the handshake in time')),
      this.#options.handshakeTimeoutMs,
    )
    socket.on('data', (chunk: Buffer) => this.#onData(socket, chunk))
    let failure = new Error('the signer closed the connection')
    socket.on('error', (error) => {
      failure = error
    })
    socket.on('close', () => this.#onClose(failure))
  }

  #onData(socket: Socket, chunk: Buffer): void {
    this.#heardAt = performance.now()
    try {
      this.#reader.push(chunk, (frame) => {
        if (!socket.destroyed) this.#onFrame(frame)
      })
    } catch (error) {
      socket.destroy(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #onFrame(frame: Frame): void {
    switch (this.#state) {
      case 'hello':
        this.#prove(frame)
        return
      case 'welcome':
        checkWelcome(this.#options.secret, this.#nonces.server, this.#nonces.client, frame)
        this.#send(encodeFrame({ kind: KIND.request, id: DESCRIBE_ID, method: METHODS.describe.code, timeoutMs: 5000 }))
        this.#state = 'describe'
        return
      case 'describe':
        this.#becomeReady(frame)
        return
      default:
        this.#settle(frame)
    }
  }

  #prove(frame: Frame): void {
    this.#nonces = { server: decodeHello(frame), client: randomBytes(NONCE_BYTES) }
    this.#send(encodeProof(this.#options.secret, this.#nonces.server, this.#nonces.client))
    this.#state = 'welcome'
  }

  #becomeReady(frame: Frame): void {
    const failure = decodeError(frame)
    if (failure) throw failure
    if (frame.kind !== KIND.result || frame.id !== DESCRIBE_ID) throw new SignerProtocolError('no answer to describe')
    const meta = decodeMeta(METHODS.describe.result, frame.meta)
    this.#options.onConnect?.(readDescription(meta, frame.payload))
    clearTimeout(this.#handshakeTimer)
    this.#failedAttempts = 0
    this.#state = 'ready'
    for (const waiting of this.#pending.values()) this.#sendRequest(waiting)
  }

  #sendRequest(pending: Pending): void {
    pending.sent++
    pending.sentAt = performance.now()
    this.#send(pending.frame)
  }

  #settle(frame: Frame): void {
    const failure = decodeError(frame)
    const pending = this.#pending.get(frame.id)
    if (!pending) {
      // Id 0 concerns the connection; any other unknown id belongs to a request past its deadline.
      if (frame.id === 0) throw failure ?? new SignerProtocolError('reply without a request')
      return
    }
    if (failure instanceof SignerStopping) {
      // It goes to the signer's successor, unless its deadline comes first.
      pending.sent--
      return
    }
    this.#forget(frame.id)
    if (failure) pending.reject(failure)
    else if (frame.kind !== KIND.result) pending.reject(new SignerProtocolError(`reply of kind ${frame.kind}`))
    else this.#resolve(pending, frame)
  }

  #resolve(pending: Pending, frame: Frame): void {
    try {
      const meta = decodeMeta<MethodResult<MethodName>>(METHODS[pending.method].result as never, frame.meta)
      pending.resolve({ meta, payload: frame.payload })
    } catch (error) {
      pending.reject(error as Error)
    }
  }

  #forget(id: number): void {
    this.#pending.delete(id)
    if (this.#pending.size > 0) return
    clearInterval(this.#deadlineTimer)
    this.#deadlineTimer = undefined
  }

  #expire(): void {
    const now = performance.now()
    for (const entry of this.#pending) {
      if (entry[1].deadlineAt > now) continue
      this.#fail([entry], 'the signer did not answer in time', this.#lastFailure)
      if (this.#showsSilence(entry[1])) this.#socket?.destroy(new Error('nothing comes from the signer any more'))
    }
  }

  /**
   * The daemon describes itself at once, whatever its keys do. Without that answer, and without any other meanwhile, the
   * connection leads nowhere, as behind a tunnel that has died.
   */
  #showsSilence({ method, sent, sentAt }: Pending): boolean {
    return this.#state === 'ready' && method === 'describe' && sent > 0 && this.#heardAt < sentAt
  }

  #onClose(reason: Error): void {
    clearTimeout(this.#handshakeTimer)
    this.#out = []
    if (this.#state === 'closed') return
    this.#state = 'disconnected'
    this.#lastFailure = reason
    const lostTwice = [...this.#pending].filter(([, { sent }]) => sent >= MAX_SENT)
    this.#fail(lostTwice, 'the connection to the signer was lost', reason)
    if (reason instanceof SecretMismatch) this.#fail(this.#pending, reason.message)
    this.#options.onDisconnect?.(reason)
    this.#reconnectTimer = setTimeout(() => this.#connect(), this.#pauseMs())
  }

  /** Doubles, with jitter so that many fronts do not return in step. The first attempt comes soon. */
  #pauseMs(): number {
    const { first, longest } = this.#options.backoffMs
    const ceiling = Math.min(longest, first * 2 ** this.#failedAttempts)
    this.#failedAttempts = Math.min(this.#failedAttempts + 1, 30)
    return ceiling / 2 + (Math.random() * ceiling) / 2
  }

  /** A request that was never sent was not signed. */
  #fail(requests: Iterable<[number, Pending]>, message: string, cause?: Error): void {
    for (const [id, { sent, reject }] of requests) {
      this.#forget(id)
      const Reason = sent > 0 ? SignerAnswerLost : SignerUnavailable
      reject(new Reason(message, { cause }))
    }
  }

  /** Requests of one turn leave in one write; `maxInFlight` bounds the socket's buffer. */
  #send(frame: Buffer): void {
    if (this.#out.push(frame) > 1) return
    queueMicrotask(() => {
      const frames = this.#out.splice(0)
      if (frames.length > 0) this.#socket?.write(frames.length === 1 ? frames[0]! : Buffer.concat(frames))
    })
  }
}

/** @throws SignerProtocolError when lengths and bytes do not agree. */
function readDescription({ version, issuers }: MethodResult<'describe'>, payload: Buffer): SignerDescription {
  let offset = 0
  const take = (length: number) => {
    const end = offset + length
    if (end > payload.length) throw new SignerProtocolError('describe promises more bytes than it sends')
    const der = Buffer.from(payload.subarray(offset, end))
    offset = end
    return der
  }
  const read = issuers.map(({ id, algorithm, chain, alternates = [] }) => ({
    id,
    algorithm,
    chain: chain.map(take),
    alternateChains: alternates.map((lengths) => lengths.map(take)),
  }))
  if (offset !== payload.length) throw new SignerProtocolError('describe sends more bytes than it names')
  return { version, issuers: read }
}
