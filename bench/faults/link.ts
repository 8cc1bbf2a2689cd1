/** A cable of the stand: passes connections on, and is cut, slow, or silent on command. In user space: no root, no netem. */

import { connect, createServer, type Server, type Socket } from 'node:net'

export type Place = { host: string; port: number } | { path: string }

/**
 * `cut` resets connections and refuses new ones. `silent` takes connections and passes nothing on, as a firewall that has
 * lost its state: connections of that time stay silent for their client, and end for the server with the fault.
 */
export type LinkState = 'whole' | 'cut' | 'slow' | 'silent'

/** One way; a reply takes it twice. */
const SLOW_MS = 150

interface Connection {
  client: Socket
  server: Socket
}

export class Link {
  readonly #listener: Server
  readonly #to: Place
  readonly #connections = new Set<Connection>()
  #state: LinkState = 'whole'

  private constructor(to: Place) {
    this.#to = to
    this.#listener = createServer({ allowHalfOpen: true }, (client) => this.#accept(client))
  }

  static async between(from: Place, to: Place): Promise<Link> {
    const link = new Link(to)
    await new Promise<void>((resolve, reject) => {
      link.#listener.once('error', reject).listen(from, () => resolve())
    })
    return link
  }

  set(state: LinkState): void {
    const isRepaired = this.#state === 'silent' && state === 'whole'
    this.#state = state
    for (const connection of this.#connections) {
      if (state === 'cut') this.#end(connection)
      if (state === 'silent') for (const socket of Object.values(connection) as Socket[]) silence(socket)
      // What came meanwhile is lost: the server learns that its client is gone, the client learns nothing.
      if (isRepaired) connection.server.destroy()
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve))
    for (const connection of this.#connections) this.#end(connection)
    await closed
  }

  #accept(client: Socket): void {
    if (this.#state === 'cut') {
      reset(client)
      return
    }
    const server = connect({ ...this.#to, allowHalfOpen: true })
    const connection = { client, server }
    this.#connections.add(connection)
    client.once('close', () => {
      this.#connections.delete(connection)
      server.destroy()
    })
    if (this.#state === 'silent') {
      silence(client)
      silence(server)
      return
    }
    this.#pass(client, server)
    this.#pass(server, client)
    server.once('close', () => isSilent(client) || client.destroy())
  }

  #pass(from: Socket, to: Socket): void {
    const later = (deliver: () => void) => (this.#state === 'slow' ? setTimeout(deliver, SLOW_MS) : deliver())
    from.on('data', (bytes) =>
      later(() => {
        if (to.write(bytes) || this.#state === 'slow') return
        from.pause()
        to.once('drain', () => from.resume())
      }),
    )
    from.on('end', () => later(() => to.end()))
    // An end that was no orderly one is passed on as such.
    from.on('error', () => to.destroy())
  }

  #end({ client, server }: Connection): void {
    reset(client)
    server.destroy()
  }
}

/** Unix sockets know no reset. */
function reset(socket: Socket): void {
  if (socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}

const silenced = new WeakSet<Socket>()
const isSilent = (socket: Socket) => silenced.has(socket)

/** Reads on, so that the socket notices when its own side leaves, and drops what it reads. */
function silence(socket: Socket): void {
  silenced.add(socket)
  socket.removeAllListeners('data').removeAllListeners('end').removeAllListeners('error')
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.destroy())
  socket.resume()
}
