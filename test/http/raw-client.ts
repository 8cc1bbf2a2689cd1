/** The HTTP adapter and clients that send exactly the given bytes and show exactly what comes back. */
import { connect, type Socket } from 'node:net'
import { afterEach } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpHandler, HttpReply, HttpServer, ListenOptions } from '../../src/http/http-message.ts'
import { listen } from '../../src/http/uws.ts'
import { WAIT_MS } from '../support/patience.ts'

export interface RawConnection {
  socket: Socket
  readonly text: string
  readonly closed: boolean
  send(data: string | Buffer): void
  /** Resolves when what was received so far matches; rejects when it does not within the time. */
  receives(pattern: RegExp): Promise<string>
  closes(): Promise<string>
}

/** @param localAddress to come from, such as another one of the loopback network. */
export function openRaw(port: number, host = '127.0.0.1', localAddress?: string): Promise<RawConnection> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let closed = false
    const socket = connect({ port, host, ...(localAddress && { localAddress }) }, () => resolve(connection))
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', reject)
    socket.on('close', () => {
      closed = true
    })
    const text = () => Buffer.concat(chunks).toString('latin1')
    const wait = async (what: string, done: () => boolean): Promise<string> => {
      const end = performance.now() + WAIT_MS
      while (!done()) {
        if (performance.now() > end) throw new Error(`${what} did not happen; received ${JSON.stringify(text())}`)
        await sleep(5)
      }
      return text()
    }
    const connection: RawConnection = {
      socket,
      get text() {
        return text()
      },
      get closed() {
        return closed
      },
      send: (data) => void socket.write(data),
      receives: (pattern) => wait(`receiving ${pattern}`, () => pattern.test(text())),
      closes: () => wait('closing', () => closed),
    }
  })
}

/** A request head with Host; `headers` one per line. */
export function head(line: string, ...headers: string[]): string {
  return `${line} HTTP/1.1\r\nHost: test\r\n${headers.map((header) => `${header}\r\n`).join('')}\r\n`
}

export function reply(status: number, body: string | Buffer = '', headers: HttpReply['headers'] = []): HttpReply {
  return { status, headers, body }
}

const servers: HttpServer[] = []
const connections: RawConnection[] = []
afterEach(() => {
  for (const { socket } of connections.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
})

/** A server that ends with the test. */
export function serve(handler: HttpHandler, options: Partial<ListenOptions> = {}): HttpServer {
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: 1000,
    keptHeaders: ['content-type', 'x-kept', 'x-list'],
    listHeaders: ['x-list'],
    handler,
    onError: (error) => reply(500, `error: ${(error as Error).message}`),
    tooLarge: (request) => reply(413, `too large: ${request.method} ${request.path}`),
    badRequest: () => reply(400, 'bad request'),
    ...options,
  })
  servers.push(server)
  return server
}

/** A connection that ends with the test. What is `sent` goes out at once. */
export async function open(server: HttpServer, sent = '', ...from: [host?: string, localAddress?: string]) {
  const connection = await openRaw(server.port, ...from)
  connections.push(connection)
  if (sent !== '') connection.send(sent)
  return connection
}
