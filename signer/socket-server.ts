/** The daemon's Unix socket: safe takeover, connections within limits, orderly drain. */

import { accessSync, chmodSync, constants, lstatSync, mkdirSync, statSync, unlinkSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import { Connection, type ConnectionContext, type ConnectionLimits } from './client-connection.ts'
import { MAX_SOCKET_PATH_BYTES } from './protocol/frames.ts'

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
  /**
   * Stops listening, removes the socket and answers requests in flight. Cuts the rest after the
   * graceful timeout.
   */
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
