/** A small ACME service for tests of clients: it validates nothing, and each of its answers can be replaced. */

import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { aCertificate } from '../unit/shared/pki/support.ts'
import type { TestCertificate } from './certificates.ts'

export interface UpstreamRequest {
  method: string
  path: string
  headers: IncomingMessage['headers']
  /** The payload of the JWS; undefined for requests without one, and for an empty payload. */
  payload: Record<string, unknown> | undefined
}

export interface UpstreamAnswer {
  status?: number
  headers?: Record<string, string>
  body?: object | string | Buffer
  /** Sends this many bytes a second. */
  drip?: number
  /** The work is done, and the connection ends without an answer. */
  lost?: true
}

export interface ScriptedUpstream {
  url: string
  directoryUrl: string
  requests: UpstreamRequest[]
  /** Requests with this method and path. */
  count(path: string): number
  /** Replaces answers; undefined leaves one as it is. */
  script: (request: UpstreamRequest, usual: UpstreamAnswer) => UpstreamAnswer | undefined
  close(): Promise<void>
}

const PROBLEM = 'urn:ietf:params:acme:error:'
export const problem = (status: number, type: string, headers: Record<string, string> = {}): UpstreamAnswer => ({
  status,
  headers: { 'content-type': 'application/problem+json', ...headers },
  body: { type: PROBLEM + type, detail: `words of the upstream about ${type}`, status },
})

export async function startScriptedUpstream(name: string, tls?: TestCertificate): Promise<ScriptedUpstream> {
  const accounts = new Set<string>()
  const order = { status: 'pending', challenge: 'pending' }
  let nonces = 0

  const orderObject = () => ({
    status: order.status,
    identifiers: [{ type: 'dns', value: name }],
    authorizations: [`${upstream.url}/authz`],
    finalize: `${upstream.url}/finalize`,
    ...(order.status === 'valid' && { certificate: `${upstream.url}/cert` }),
  })
  const challengeObject = () => ({
    type: 'http-01',
    url: `${upstream.url}/chall`,
    status: order.challenge,
    token: 'token-of-the-test',
  })

  function registered(payload: UpstreamRequest['payload'], key: string): UpstreamAnswer {
    if (payload?.['onlyReturnExisting'] && !accounts.has(key)) return problem(400, 'accountDoesNotExist')
    accounts.add(key)
    return { status: 201, headers: { location: `${upstream.url}/account/${[...accounts].indexOf(key)}` }, body: {} }
  }

  function usual({ path, payload }: UpstreamRequest, key: string): UpstreamAnswer {
    switch (path) {
      case '/dir':
        return {
          body: Object.fromEntries(
            ['newNonce', 'newAccount', 'newOrder', 'revokeCert', 'renewalInfo'].map((one) => [
              one,
              `${upstream.url}/${one}`,
            ]),
          ),
        }
      case '/newAccount':
        return registered(payload, key)
      case '/newOrder':
        Object.assign(order, { status: 'pending', challenge: 'pending' })
        return { status: 201, headers: { location: `${upstream.url}/order` }, body: orderObject() }
      case '/order':
        return { body: orderObject() }
      case '/authz':
        return {
          body: { status: order.challenge, identifier: { type: 'dns', value: name }, challenges: [challengeObject()] },
        }
      case '/chall':
        if (payload) Object.assign(order, { status: 'ready', challenge: 'valid' })
        return { body: challengeObject() }
      case '/finalize':
        if (order.status !== 'ready') return problem(403, 'orderNotReady')
        order.status = 'valid'
        return { body: orderObject() }
      case '/cert':
        return {
          headers: { 'content-type': 'application/pem-certificate-chain' },
          body: encodePem('CERTIFICATE', aCertificate()),
        }
      default:
        return { body: {} }
    }
  }

  const listener: RequestListener = (incoming, outgoing) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      const jws = text === '' ? undefined : (JSON.parse(text) as { protected: string; payload: string })
      const decoded = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>
      const request: UpstreamRequest = {
        method: incoming.method ?? '',
        path: new URL(incoming.url ?? '', 'http://upstream.test').pathname,
        headers: incoming.headers,
        payload: jws?.payload ? decoded(jws.payload) : undefined,
      }
      upstream.requests.push(request)
      const key = jws ? JSON.stringify(decoded(jws.protected)['jwk'] ?? '') : ''
      const answer = usual(request, key)
      reply(outgoing, { ...answer, ...upstream.script(request, answer) })
    })
  }
  const reply = (outgoing: ServerResponse, { status = 200, headers = {}, body = '', drip, lost }: UpstreamAnswer) => {
    if (lost) return void outgoing.socket?.destroy()
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
    outgoing.writeHead(status, {
      'content-type': 'application/json',
      'replay-nonce': `nonce-${nonces++}`,
      ...headers,
    })
    if (drip === undefined) return void outgoing.end(bytes)
    const timer = setInterval(() => outgoing.write(' '.repeat(drip)), 1000)
    outgoing.on('close', () => clearInterval(timer))
  }

  const server = tls ? createTlsServer(tls, listener) : createServer(listener)
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const url = `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`
  const upstream: ScriptedUpstream = {
    url,
    directoryUrl: `${url}/dir`,
    requests: [],
    count: (path) => upstream.requests.filter((request) => request.path === path).length,
    script: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return upstream
}
