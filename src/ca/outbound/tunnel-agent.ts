/** TLS connections through a forward proxy (CONNECT, RFC 9110 §9.3.6). */

import http, { type ClientRequestArgs, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { isIPv6, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type ConnectionOptions, connect } from 'node:tls'

const CONNECT_TIMEOUT_MS = 10_000

type Done = (error: Error | null, stream: Duplex) => void
const NO_STREAM = undefined as unknown as Duplex

export class TunnelAgent extends https.Agent {
  readonly #proxy: URL

  constructor(proxy: URL, options: https.AgentOptions) {
    super(options)
    this.#proxy = proxy
  }

  /** Node.js calls it for each new connection. Without a stream it waits for `done`. */
  override createConnection(options: ClientRequestArgs, done: Done = () => undefined): Duplex {
    const { host, port } = options
    const target = `${isIPv6(host ?? '') ? `[${host}]` : host}:${port}`
    const request = http.request(this.#proxy, {
      method: 'CONNECT',
      path: target,
      headers: { Host: target, ...proxyHeaders(this.#proxy) },
      timeout: CONNECT_TIMEOUT_MS,
      agent: false,
    })
    request.on('timeout', () => request.destroy(new Error('the proxy does not answer')))
    request.on('error', (error) => done(error, NO_STREAM))
    request.on('connect', ({ statusCode }: IncomingMessage, socket: Socket) => {
      socket.setTimeout(0)
      if (statusCode === 200) {
        done(null, connect({ ...(options as ConnectionOptions), socket }))
        return
      }
      socket.destroy()
      done(new Error(`the proxy refused the connection: ${statusCode}`), NO_STREAM)
    })
    request.end()
    return NO_STREAM
  }
}

/** RFC 7617, from the user information of the proxy's URL. */
export function proxyHeaders({ username, password }: URL): Record<string, string> {
  if (username === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'Proxy-Authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
