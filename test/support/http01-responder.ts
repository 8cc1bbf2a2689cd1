/** Answers http-01 challenges (RFC 8555 §8.3) for clients of this process: host name → thumbprint of the account. */

import { createServer } from 'node:http'

export interface Http01Responder {
  /** The account that asks for this name. */
  serve(name: string, thumbprint: string): void
  close(): Promise<void>
}

const CHALLENGE = /^\/\.well-known\/acme-challenge\/([\w-]+)$/

export async function startHttp01Responder(port: number): Promise<Http01Responder> {
  const thumbprints = new Map<string, string>()
  const server = createServer((request, response) => {
    const token = CHALLENGE.exec(request.url ?? '')?.[1]
    const thumbprint = thumbprints.get((request.headers.host ?? '').replace(/:\d+$/, ''))
    if (!token || !thumbprint) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(`${token}.${thumbprint}`)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    serve: (name, thumbprint) => void thumbprints.set(name, thumbprint),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
