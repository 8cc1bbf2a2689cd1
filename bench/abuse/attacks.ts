/**
 * What one connection of an abuser does, over and over, with a pause after each act.
 *
 * The pace is bounded (connections divided by the pause), so that an attack costs what a single machine of somebody else could
 * send, and not whatever this one has left.
 */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { registerAccount } from '../client/account.ts'
import { AcmeClient } from '../client/acme.ts'
import { Connection, type ConnectionSettings, openSocket, parseTarget, trusting } from '../client/connection.ts'
import { Failure } from '../client/failure.ts'
import { NoncePool } from '../client/nonces.ts'
import { keyMaker } from '../client/signer.ts'
import { RunStats } from '../measure/stats.ts'
import type { AbuserJob, AbuserReport } from './messages.ts'

type Counts = Omit<AbuserReport, 'cpuMicros'>

/** One act of connection number `index`. Ends early when the server ends the connection. */
type Act = (index: number) => Promise<void>

const CHUNK = Buffer.alloc(64 * 1024, 'a')
const FRAMED_CHUNK = Buffer.concat([Buffer.from(`${CHUNK.length.toString(16)}\r\n`), CHUNK, Buffer.from('\r\n')])
/** What the head of a huge body announces. */
const HUGE_BYTES = 100 * 1024 * 1024
const SIGNATURE_BYTES = 64

/** @throws Failure when the abuser cannot even get what its attack needs, such as an account. */
export async function beginAttack(job: AbuserJob, counts: Counts): Promise<Act> {
  const settings: ConnectionSettings = {
    target: parseTarget(job.directoryUrl),
    ...{ trust: trusting(job.caCertificates), insecure: job.insecure, timeoutMs: job.timeoutMs },
    ...(job.localAddress !== undefined && { localAddress: job.localAddress }),
  }
  if (job.kind === 'bad-signatures') return await badSignatures(job, settings, counts)

  const path = new URL(job.directoryUrl).pathname
  const { host } = new URL(job.directoryUrl)
  const head = `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/jose+json\r\n`
  const slots = new RawConnections(settings, counts)
  switch (job.kind) {
    case 'connections':
      return (index) => slots.write(index, '', '')
    case 'huge-bodies':
      // Half of them say how much will come, the others leave the server to find out.
      return (index) =>
        index % 2 === 0
          ? slots.write(index, `${head}Content-Length: ${HUGE_BYTES}\r\n\r\n`, CHUNK)
          : slots.write(index, `${head}Transfer-Encoding: chunked\r\n\r\n`, FRAMED_CHUNK)
    case 'slowloris':
      // Half of them never end their head, the others never their body.
      return (index) =>
        index % 2 === 0
          ? slots.write(index, head, 'X-Slow: 1\r\n')
          : slots.write(index, `${head}Content-Length: 2000\r\n\r\n`, 'a')
  }
}

/** Well-formed requests of an account of its own, with good nonces: only verification finds out. */
async function badSignatures(job: AbuserJob, settings: ConnectionSettings, counts: Counts): Promise<Act> {
  const stats = new RunStats()
  const nonces = new NoncePool(2 * job.connections)
  const clients = Array.from({ length: job.connections }, () => {
    counts.opened++
    return new AcmeClient(new Connection(settings, stats), settings.target, nonces, stats)
  })
  const first = clients[0] as AcmeClient
  const directory = await first.readDirectory(job.directoryUrl)
  for (const client of clients) client.useDirectory(directory)
  const account = await registerAccount(first, directory, keyMaker('openssl'), 0)
  const forger = {
    prefix: account.prefix,
    key: { ...account.key, sign: () => randomBytes(SIGNATURE_BYTES).toString('base64url') },
  }
  return async (index) => {
    try {
      await (clients[index] as AcmeClient).post('bad-signature', forger, directory.newOrder, '{"identifiers":[]}')
      countAnswer(counts, 'accepted')
    } catch (error) {
      const kind = error instanceof Failure ? error.kind : 'generator'
      if (kind === 'connection' || kind === 'timeout') counts.closedByServer++
      else countAnswer(counts, kind)
    }
    counts.acts++
    counts.sentBytes = stats.sentBytes
  }
}

/** Sockets that are opened when there is none, and written to piece by piece. */
class RawConnections {
  readonly #settings: ConnectionSettings
  readonly #counts: Counts
  readonly #sockets = new Map<number, Socket>()

  constructor(settings: ConnectionSettings, counts: Counts) {
    this.#settings = settings
    this.#counts = counts
  }

  /** Sends the beginning on a new connection, and a piece more on one that is there. */
  async write(index: number, beginning: string, piece: string | Buffer): Promise<void> {
    const known = this.#sockets.get(index)
    const socket = known ?? (await this.#open(index))
    const bytes = known ? piece : beginning
    if (!socket || bytes.length === 0) return
    this.#counts.acts++
    this.#counts.sentBytes += bytes.length
    // A server that does not read is not written to any further.
    if (!socket.write(bytes)) await drainedOrClosed(socket)
  }

  async #open(index: number): Promise<Socket | undefined> {
    const socket = openSocket(this.#settings)
    this.#sockets.set(index, socket)
    socket.on('data', (data) => {
      const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(data.toString('latin1')) ?? []
      if (status) countAnswer(this.#counts, status)
    })
    // What happens to its connections is what the abuser is here to see; it is counted below.
    socket.on('error', () => undefined)
    socket.on('end', () => socket.destroy())
    socket.on('close', () => {
      this.#counts.closedByServer++
      this.#sockets.delete(index)
    })
    try {
      await once(socket, this.#settings.target.secure ? 'secureConnect' : 'connect')
      this.#counts.opened++
      return socket
    } catch {
      // Refused: 'close' has counted it, and the next act tries again.
      return undefined
    }
  }
}

async function drainedOrClosed(socket: Socket): Promise<void> {
  const settled = new AbortController()
  const { signal } = settled
  // One that breaks is over as well; 'close' counts it.
  await Promise.race([once(socket, 'drain', { signal }), once(socket, 'close', { signal })]).catch(() => undefined)
  // What is not heard of any more must not stay on the socket, act by act.
  settled.abort()
}

/** Runs until the process ends. @param onFirst Told when every connection has acted once. */
export function keepAttacking(act: Act, { connections, pauseMs }: AbuserJob, onFirst: () => void): void {
  let acted = 0
  const run = async (index: number) => {
    // Spread over a pause, as independent connections would be.
    await sleep((index / connections) * pauseMs)
    for (let turn = 0; ; turn++) {
      await act(index)
      if (turn === 0 && ++acted === connections) onFirst()
      await sleep(pauseMs)
    }
  }
  for (let index = 0; index < connections; index++) void run(index)
}

function countAnswer({ answers }: Counts, answer: string): void {
  answers[answer] = (answers[answer] ?? 0) + 1
}
