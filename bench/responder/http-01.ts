/**
 * Answers http-01 challenges (RFC 8555 §8.3) for every account of a run.
 *
 * It holds no tokens: the Host header names the account (`names.ts`), whose thumbprint completes the token of the path.
 * So generator processes need not tell it anything while the clock runs.
 */

import { createServer, type Server, type Socket } from 'node:net'
import { accountIndexOf, thumbprintName } from '../scenario/names.ts'
import type { Proofs } from './proofs.ts'

export interface Http01Responder {
  port: number
  /** Held answers wait, and go out when holding ends. */
  hold(isHeld: boolean): void
  /** Challenges answered. */
  readonly answered: number
  close(): Promise<void>
}

const REQUEST = /^GET \/\.well-known\/acme-challenge\/([\w-]+) HTTP\/1\.[01]\r\n/
const HOST = /\r\nhost: *([^\r:]+)/i
const MAX_REQUEST_BYTES = 8192

/** @param thumbprints By account index; those of later keys are in `proofs`. @throws Error when the port cannot be listened on. */
export async function startHttp01Responder(
  host: string,
  port: number,
  thumbprints: readonly string[],
  proofs: Proofs,
): Promise<Http01Responder> {
  const sockets = new Set<Socket>()
  let answered = 0
  let held: (() => void)[] | undefined
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // A validator that hangs up early is its own business; the authorization will tell.
    socket.on('error', () => socket.destroy())
    let request = ''
    socket.on('data', (bytes) => {
      request += bytes.toString('latin1')
      if (request.length > MAX_REQUEST_BYTES) socket.destroy()
      if (!request.includes('\r\n\r\n')) return
      const send = () => {
        socket.end(answer(request, thumbprints, proofs))
        answered++
      }
      if (held) held.push(send)
      else send()
    })
  })
  await listen(server, host, port)
  return {
    port: (server.address() as { port: number }).port,
    hold(isHeld) {
      const waiting = held ?? []
      held = isHeld ? waiting : undefined
      if (!isHeld) for (const send of waiting) send()
    },
    get answered() {
      return answered
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

function answer(request: string, thumbprints: readonly string[], proofs: Proofs): string {
  const token = REQUEST.exec(request)?.[1]
  const index = accountIndexOf(HOST.exec(request)?.[1] ?? '')
  const thumbprint = proofs.find(thumbprintName(index)) ?? thumbprints[index]
  if (!token || !thumbprint) return 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'

  const body = `${token}.${thumbprint}`
  const headers = `Content-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\nConnection: close`
  return `HTTP/1.1 200 OK\r\n${headers}\r\n\r\n${body}`
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`http-01 responder on ${host}:${port}: ${error.message}`)))
    server.listen(port, host, () => resolve())
  })
}
