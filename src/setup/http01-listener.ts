/** Answers http-01 on port 80 for one test, where nobody else does. */

import { createServer } from 'node:http'

export type PublishTokens = (token: string, keyAuthorization: string) => void

interface Listener {
  publish: PublishTokens
  close(): void
}

/** @returns undefined where the port is taken */
export async function listenForHttp01(): Promise<Listener | undefined> {
  const answers = new Map<string, string>()
  const server = createServer((request, response) => {
    const answer = answers.get(request.url ?? '')
    response.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/octet-stream' })
    response.end(answer)
  })
  const isOpen = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(80, () => resolve(true))
  })
  if (!isOpen) return undefined
  return {
    publish: (token, keyAuthorization) => void answers.set(`/.well-known/acme-challenge/${token}`, keyAuthorization),
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
