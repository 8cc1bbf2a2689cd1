/**
 * One HTTP request as a client sends it, and all that can be seen of the answer. It never throws, because a failure is a
 * fact.
 */

import { createPublicKey, generateKeyPairSync, type JsonWebKey, type KeyObject, sign } from 'node:crypto'
import { type IncomingHttpHeaders, request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { isIP } from 'node:net'
import { rootCertificates, type TLSSocket } from 'node:tls'
import { messageOf } from '../../shared/lib/errors.ts'
import type { JwsAlgorithm } from '../../shared/protocol/jws.ts'
import { CannotTell } from '../verdict.ts'

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
  /** DER of the certificates that the server sent; its own is the first. */
  chain: readonly Buffer[]
  /** The reason why a client that trusts `trustedRoots` and the system's roots would refuse it. */
  problem: string | undefined
}

export interface NoAnswer {
  answer?: never
  failure: string
  /** The name that does not resolve, or else the address. */
  who: string
}

export type Asked = { answer: Answer; failure?: never; who?: never } | NoAnswer

export interface Ask {
  method?: string
  headers?: Record<string, string>
  body?: string
  /** PEM of roots that count beside the roots of Node.js. */
  trustedRoots?: readonly string[]
  localAddress?: string
  /** The host and the port that are asked in place of the URL's. */
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
        // A certificate that is refused is a finding, and does not end the look.
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

/** The reader checks the members. @throws CannotTell where the body is no JSON */
export function jsonOf<T extends object>(body: Buffer): Partial<T> {
  try {
    return JSON.parse(body.toString('utf8')) as Partial<T>
  } catch (error) {
    throw new CannotTell(`the answer is no JSON: ${messageOf(error)}`)
  }
}

const KEYS: Partial<
  Record<JwsAlgorithm, { make: () => { publicKey: KeyObject; privateKey: KeyObject }; hash: string | null }>
> = {
  ES256: { make: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }), hash: 'sha256' },
  ES384: { make: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }), hash: 'sha384' },
  EdDSA: { make: () => generateKeyPairSync('ed25519'), hash: null },
  RS256: { make: () => generateKeyPairSync('rsa', { modulusLength: 2048 }), hash: 'sha256' },
}

/**
 * By way of its DER. Node.js 20 can stop forever when it exports a key that it has made as a JWK: the garbage collector
 * then waits for the lock of that key. A loop of 400 keys did so each time.
 */
function jwkOf(key: KeyObject): JsonWebKey {
  const der = key.export({ type: 'spki', format: 'der' })
  return createPublicKey({ key: der, type: 'spki', format: 'der' }).export({ format: 'jwk' })
}

/**
 * A signed request that changes nothing: it asks for the account of a key that was made just now.
 * @returns a flattened JWS; undefined where the service takes none of these algorithms
 */
export function askForAccount(url: string, nonce: string, allowed: readonly string[]): string | undefined {
  const [alg, kind] = Object.entries(KEYS).find(([name]) => allowed.includes(name)) ?? []
  if (alg === undefined || !kind) return undefined
  const { publicKey, privateKey } = kind.make()
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const protectedHeader = encoded({ alg, nonce, url, jwk: jwkOf(publicKey) })
  const payload = encoded({ onlyReturnExisting: true })
  const data = Buffer.from(`${protectedHeader}.${payload}`)
  const signature = sign(kind.hash, data, { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
  return JSON.stringify({ protected: protectedHeader, payload, signature })
}
