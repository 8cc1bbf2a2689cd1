/** A client that sends exactly the given bytes and shows exactly what comes back. */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface RawConnection {
  socket: Socket
  readonly text: string
  readonly closed: boolean
  send(data: string | Buffer): void
  /** Resolves when what was received so far matches; rejects when it does not within the time. */
  receives(pattern: RegExp, withinMs?: number): Promise<string>
  closes(withinMs?: number): Promise<string>
}

/** In one process with the server; for a machine that stands still meanwhile. */
const WITHIN_MS = 60_000

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
    const wait = async (what: string, done: () => boolean, withinMs: number): Promise<string> => {
      const end = performance.now() + withinMs
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
      receives: (pattern, withinMs = WITHIN_MS) => wait(`receiving ${pattern}`, () => pattern.test(text()), withinMs),
      closes: (withinMs = WITHIN_MS) => wait('closing', () => closed, withinMs),
    }
  })
}

/** A request head with Host; `headers` one per line. */
export function head(line: string, ...headers: string[]): string {
  return `${line} HTTP/1.1\r\nHost: test\r\n${headers.map((header) => `${header}\r\n`).join('')}\r\n`
}
