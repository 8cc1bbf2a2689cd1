/**
 * The daemon's Unix socket: safe takeover, connections within limits, orderly drain. A connection makes the handshake,
 * reads requests, writes replies, and answers protocol errors of its peer.
 */

import { randomBytes } from 'node:crypto'
import { accessSync, chmodSync, constants, lstatSync, mkdirSync, statSync, unlinkSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import type { Logger } from 'pino'
import { messageOf } from '../src/shared/lib/errors.ts'
import {
  decodeMeta,
  encodeError,
  encodeFrame,
  type Frame,
  FrameReader,
  KIND,
  MAX_SOCKET_PATH_BYTES,
} from './protocol/frames.ts'
import { checkProof, encodeHello, encodeWelcome, HANDSHAKE_MAX_FRAME_BYTES, NONCE_BYTES } from './protocol/handshake.ts'
import { METHODS, type MethodName, methodOfCode } from './protocol/methods.ts'
import { SignerProtocolError, SignerRefusal, SignerStopping, SignerUnavailable } from './protocol/signer-errors.ts'
import { type Counters, type MethodHandlers, noteError } from './signing.ts'

interface ConnectionLimits {
  frameBytes: number
  /** Over all connections of the daemon. A further request gets `unavailable`. */
  requestsInFlight: number
  handshakeTimeoutMs: number
}

interface ConnectionContext {
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

class Connection {
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
      this.#reject(messageOf(error))
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

  /** Sends the replies of one turn in one write. While a peer does not read, reading from it pauses. */
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

const DIRECTORY_MODE = 0o750
const SOCKET_MODE = 0o660

interface ServerLimits extends ConnectionLimits {
  connections: number
  gracefulTimeoutMs: number
}

interface ServerOptions extends ConnectionContext {
  socketPath: string
  limits: ServerLimits
}

export interface SignerServer {
  /** Stops listening, removes the socket and answers requests in flight. Cuts the rest after the graceful timeout. */
  drain(): Promise<void>
}

/**
 * Makes the socket's missing directory, and removes the socket of a dead daemon.
 * @throws Error in one sentence when the place is unsafe or another daemon listens there.
 */
export async function prepareSocket(socketPath: string): Promise<void> {
  requireShortPath(socketPath)
  mkdirSync(path.dirname(socketPath), { recursive: true, mode: DIRECTORY_MODE })
  requireSocketFolder(socketPath)
  await removeStaleSocket(socketPath)
}

/**
 * Listens on the socket, after `prepareSocket`. File modes (directory 0750, socket 0660) and the
 * shared secret control the access.
 */
export async function listen(options: ServerOptions): Promise<SignerServer> {
  const { socketPath, limits, counters, log } = options
  const connections = new Set<Connection>()
  const remove = (connection: Connection) => {
    connections.delete(connection)
    counters.connections = connections.size
  }
  const server = createServer((socket) => {
    if (connections.size >= limits.connections) {
      log.warn({ limit: limits.connections }, 'too many connections; one was turned away')
      const silent = oldestSilent(connections)
      if (!silent) {
        socket.destroy()
        return
      }
      remove(silent)
      silent.destroy()
    }
    const connection = new Connection(socket, options)
    connections.add(connection)
    counters.connections = connections.size
    socket.on('close', () => remove(connection))
  })
  await startListening(server, socketPath)
  server.on('error', (error) => log.error({ err: error }, 'accepting a connection failed'))
  return { drain: () => drain(server, connections, limits.gracefulTimeoutMs) }
}

/**
 * The oldest connection without a handshake. A client with the secret needs only milliseconds, so a
 * silent one loses little.
 */
function oldestSilent(connections: ReadonlySet<Connection>): Connection | undefined {
  for (const connection of connections) if (!connection.isAuthenticated) return connection
  return undefined
}

/** @throws Error in one sentence */
export function requireShortPath(socketPath: string): void {
  if (Buffer.byteLength(socketPath) > MAX_SOCKET_PATH_BYTES) {
    throw new Error(`${socketPath}: a socket path has at most ${MAX_SOCKET_PATH_BYTES} bytes`)
  }
}

/** @throws Error in one sentence when the folder is open to others or closed to us */
export function requireSocketFolder(socketPath: string): void {
  const directory = path.dirname(socketPath)
  accessSync(directory, constants.W_OK | constants.X_OK)
  const { mode } = statSync(directory)
  if ((mode & 0o027) !== 0) {
    throw new Error(
      `${directory}: mode ${(mode & 0o777).toString(8)} is too open for the signer's socket; use 750 or 700`,
    )
  }
}

/** Removes the socket of a dead daemon. Refuses other files, and sockets with a listener. */
async function removeStaleSocket(socketPath: string): Promise<void> {
  const existing = lstatSync(socketPath, { throwIfNoEntry: false })
  if (!existing) return
  if (!existing.isSocket()) throw new Error(`${socketPath}: exists and is not a socket`)
  const outcome = await tryConnect(socketPath)
  if (outcome === 'ECONNREFUSED') unlinkSync(socketPath)
  else throw new Error(`${socketPath}: ${outcome === 'connected' ? 'another signer listens on it' : outcome}`)
}

function tryConnect(socketPath: string): Promise<string> {
  return new Promise((resolve) => {
    const probe: Socket = connect(socketPath, () => {
      probe.destroy()
      resolve('connected')
    })
    probe.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
  })
}

function startListening(server: Server, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(socketPath, () => {
      server.off('error', reject)
      chmodSync(socketPath, SOCKET_MODE)
      resolve()
    })
  })
}

async function drain(server: Server, connections: ReadonlySet<Connection>, timeoutMs: number): Promise<void> {
  // Closing the listener also removes the socket file.
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  const cut = setTimeout(() => {
    for (const connection of connections) connection.destroy()
  }, timeoutMs)
  for (const connection of connections) connection.drain()
  await closed
  clearTimeout(cut)
}
