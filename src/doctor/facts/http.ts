/** One HTTP request as a client sends it, and all that can be seen of the answer. Never throws: a failure is a fact. */

import { type IncomingHttpHeaders, request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { isIP } from 'node:net'
import { rootCertificates, type TLSSocket } from 'node:tls'

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  /** The address from which this host connected. */
  localAddress: string
  remoteAddress: string
  tls: TlsFacts | undefined
}

export interface TlsFacts {
  /** DER, from the server's own upwards, as it sent them. */
  chain: readonly Buffer[]
  /** Why a client that trusts `trustedRoots` and the system's would refuse it. */
  problem: string | undefined
}

export interface NoAnswer {
  answer?: never
  failure: string
  /** The name that does not resolve, else the address. */
  who: string
}

export type Asked = { answer: Answer; failure?: never; who?: never } | NoAnswer

export interface Ask {
  method?: string
  headers?: Record<string, string>
  body?: string
  /** PEM, beside those of Node.js. */
  trustedRoots?: readonly string[]
  localAddress?: string
  /** In place of those of the URL. */
  to?: { host: string; port: number }
}

const LIMIT_MS = 8_000
const MOST_BYTES = 64 * 1024 * 1024

export function ask(url: string, options: Ask = {}): Promise<Asked> {
  const { method = 'GET', headers = {}, body, trustedRoots = [], localAddress, to } = options
  return new Promise((resolve) => {
    const { protocol, hostname, port, host, pathname, search } = new URL(url)
    const isTls = protocol === 'https:'
    const name = hostname.replace(/^\[|\]$/g, '')
    const fail = (error: Error & { code?: string }) =>
      resolve({
        failure: describe(error),
        who: isUnresolved(error) ? name : `${to?.host ?? name}:${to?.port ?? (port || protocol)}`,
      })
    const sent = (isTls ? tlsRequest : plainRequest)(
      {
        method,
        host: to?.host ?? name,
        port: to?.port ?? (port || (isTls ? 443 : 80)),
        path: pathname + search,
        headers: {
          Host: host,
          'User-Agent': 'chancery-doctor',
          ...(body !== undefined && { 'Content-Length': Buffer.byteLength(body) }),
          ...headers,
        },
        agent: false,
        signal: AbortSignal.timeout(LIMIT_MS),
        ...(localAddress !== undefined && { localAddress }),
        // What is wrong with the certificate is a finding, not the end of the look.
        ...(isTls && {
          rejectUnauthorized: false,
          ca: [...rootCertificates, ...trustedRoots],
          ...(isIP(name) === 0 && { servername: name }),
        }),
      },
      (reply) => {
        const chunks: Buffer[] = []
        let length = 0
        const socket = reply.socket
        const { localAddress: local = '', remoteAddress: remote = '' } = socket
        const tls = isTls ? tlsFacts(socket as TLSSocket) : undefined
        reply.on('data', (chunk: Buffer) => {
          length += chunk.length
          if (length > MOST_BYTES) sent.destroy(new Error('the answer is too long'))
          else chunks.push(chunk)
        })
        reply.once('error', fail)
        reply.once('end', () =>
          resolve({
            answer: {
              status: reply.statusCode ?? 0,
              headers: reply.headers,
              body: Buffer.concat(chunks),
              localAddress: local,
              remoteAddress: remote,
              tls,
            },
          }),
        )
      },
    )
    sent.once('error', fail)
    sent.end(body)
  })
}

function tlsFacts(socket: TLSSocket): TlsFacts {
  const chain: Buffer[] = []
  let next = socket.getPeerCertificate(true)
  while (next?.raw && !chain.some((one) => one.equals(next.raw))) {
    chain.push(next.raw)
    next = next.issuerCertificate
  }
  const { authorized, authorizationError } = socket
  return { chain, problem: authorized ? undefined : String(authorizationError ?? 'unknown') }
}

export const UNRESOLVED = 'its name does not resolve here'
const isUnresolved = ({ code = '' }: { code?: string }) => code === 'ENOTFOUND' || code === 'EAI_AGAIN'

function describe(error: Error & { code?: string }): string {
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return `no answer within ${LIMIT_MS / 1000} s`
  if (isUnresolved(error)) return UNRESOLVED
  if (error.code === 'ECONNREFUSED') return 'connection refused'
  return error.code ? `${error.code}: ${error.message}` : error.message
}
