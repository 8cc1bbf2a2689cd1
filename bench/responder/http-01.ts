/**
 * Answers http-01 challenges (RFC 8555 §8.3) for every account of a run.
 *
 * It holds no tokens: the Host header names the account, whose thumbprint completes the token of the path. Generator
 * processes tell it about each account once, so they send nothing while the clock runs.
 */

import { createServer } from 'node:net'
import { accountIndexOf, thumbprintName } from '../scenario/scenario.ts'
import { listen, type Proofs, type Responder } from './listen.ts'

const REQUEST = /^GET \/\.well-known\/acme-challenge\/([\w-]+) HTTP\/1\.[01]\r\n/
const HOST = /\r\nhost: *([^\r:]+)/i
const MAX_REQUEST_BYTES = 8192

/** @throws Error when the port is taken */
export function startHttp01Responder(host: string, port: number, proofs: Proofs): Promise<Responder> {
  const server = createServer((socket) => {
    let request = ''
    socket.on('data', (bytes) => {
      request += bytes.toString('latin1')
      if (request.length > MAX_REQUEST_BYTES) socket.destroy()
      if (request.includes('\r\n\r\n')) socket.end(answer(request, proofs))
    })
  })
  return listen(server, 'http-01', host, port)
}

function answer(request: string, proofs: Proofs): string {
  const token = REQUEST.exec(request)?.[1]
  const index = accountIndexOf(HOST.exec(request)?.[1] ?? '')
  const thumbprint = proofs.get(thumbprintName(index))
  if (!token || !thumbprint) return 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
  const body = `${token}.${thumbprint}`
  const headers = `Content-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\nConnection: close`
  return `HTTP/1.1 200 OK\r\n${headers}\r\n\r\n${body}`
}
