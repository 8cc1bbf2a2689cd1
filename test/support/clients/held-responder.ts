/** A web server for http-01 that holds its answers back, and counts how many requests for one token it has at a time. */

import { createServer, type ServerResponse } from 'node:http'

export interface HeldResponder {
  /** Requests that wait for their answer. */
  held(): number
  /** Requests for a token so far, and the most of them at the same time. */
  readonly seen: ReadonlyMap<string, { requests: number; atOnce: number }>
  /** From now on every request is held, or answered at once; going on answers what was held. */
  hold(on: boolean): void
  /** The body for a token; the others are 404. */
  answer(token: string, body: string): void
  close(): Promise<void>
}

export async function startHeldResponder(port: number): Promise<HeldResponder> {
  const answers = new Map<string, string>()
  const seen = new Map<string, { requests: number; atOnce: number; now: number }>()
  const waiting = new Map<ServerResponse, string>()
  let holding = true

  function send(response: ServerResponse, token: string): void {
    const body = answers.get(token)
    response.writeHead(body === undefined ? 404 : 200, { connection: 'close' }).end(body ?? '')
  }

  const server = createServer((request, response) => {
    const token = (request.url ?? '').split('/').at(-1) as string
    const count = seen.get(token) ?? { requests: 0, atOnce: 0, now: 0 }
    seen.set(token, count)
    count.requests++
    count.now++
    count.atOnce = Math.max(count.atOnce, count.now)
    response.once('close', () => {
      count.now--
      waiting.delete(response)
    })
    if (holding) waiting.set(response, token)
    else send(response, token)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host: '127.0.0.1', backlog: 4096 }, resolve)
  })
  return {
    held: () => waiting.size,
    seen,
    hold(on) {
      holding = on
      if (on) return
      for (const [response, token] of waiting) send(response, token)
      waiting.clear()
    },
    answer: (token, body) => void answers.set(token, body),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
