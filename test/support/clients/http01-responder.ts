/** Answers http-01 challenges (RFC 8555 §8.3) for clients that have no web server of their own. */

import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import path from 'node:path'

export interface Http01Responder {
  /** The account that asks for this name. */
  serve(name: string, thumbprint: string): void
  close(): Promise<void>
}

const CHALLENGE = /^\/\.well-known\/acme-challenge\/([\w-]+)$/

export async function startHttp01Responder(port: number): Promise<Http01Responder> {
  const thumbprints = new Map<string, string>()
  const close = await listen(port, (request, response) => {
    const token = CHALLENGE.exec(request.url ?? '')?.[1]
    const thumbprint = thumbprints.get((request.headers.host ?? '').replace(/:\d+$/, ''))
    if (!token || !thumbprint) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(`${token}.${thumbprint}`)
  })
  return { serve: (name, thumbprint) => void thumbprints.set(name, thumbprint), close }
}

/** A web server whose challenge folder a client writes into. @returns what ends it */
export function startChallengeFolder(
  port: number,
  folder: string,
  address = '127.0.0.1',
): Promise<() => Promise<void>> {
  const serve: RequestListener = (request, response) => {
    const token = CHALLENGE.exec(request.url ?? '')?.[1]
    try {
      const keyAuthorization = readFileSync(path.join(folder, token ?? ''))
      response.writeHead(200, { 'content-type': 'text/plain' }).end(keyAuthorization)
    } catch {
      response.writeHead(404).end()
    }
  }
  return listen(port, serve, address)
}

async function listen(port: number, handle: RequestListener, address = '127.0.0.1'): Promise<() => Promise<void>> {
  const server = createServer(handle)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, resolve)
  })
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
}
