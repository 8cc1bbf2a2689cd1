/** Web servers for tests, on loopback and free ports: node's own HTTP and HTTPS, and bare sockets for what they refuse. */

import { webcrypto } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from 'node:net'
import type { Http01Job } from '../../workers/job.ts'
import { WAIT_MS } from '../support/patience.ts'
import 'reflect-metadata'
import * as x509 from '@peculiar/x509'

/** Makes a certificate that fits no name and has expired: http-01 must not care. */
async function selfSigned(): Promise<{ key: string; cert: string }> {
  x509.cryptoProvider.set(webcrypto)
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=not the name of anything',
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date('2020-01-01T00:00:00Z'),
    notAfter: new Date('2020-01-02T00:00:00Z'),
  })
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
  return { key: x509.PemConverter.encode(pkcs8, 'PRIVATE KEY'), cert: certificate.toString('pem') }
}

export interface ScriptedWeb {
  port: number
  /** Lines `METHOD url` as received. */
  requests: string[]
  close(): Promise<void>
}

export const TOKEN = 'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA'
export const KEY_AUTHORIZATION = `${TOKEN}.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI`
export const CHALLENGE_PATH = `/.well-known/acme-challenge/${TOKEN}`

export async function startWeb(listener: RequestListener, host = '127.0.0.1', port = 0): Promise<ScriptedWeb> {
  const requests: string[] = []
  const server = createHttpServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    listener(request, response)
  })
  return listening(server, requests, host, port)
}

export async function startSecureWeb(listener: RequestListener, host = '127.0.0.1'): Promise<ScriptedWeb> {
  const requests: string[] = []
  const server = createHttpsServer(await selfSigned(), (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    listener(request, response)
  })
  return listening(server, requests, host, 0)
}

/** Calls `talk` once the first bytes of a connection have come. */
export async function startRaw(talk: (socket: Socket) => void, host = '127.0.0.1', port = 0): Promise<ScriptedWeb> {
  const requests: string[] = []
  const server = createTcpServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (bytes) => {
      requests.push(bytes.toString('latin1'))
      talk(socket)
    })
  })
  return listening(server, requests, host, port)
}

async function listening(
  server: Server | TcpServer,
  requests: string[],
  host: string,
  port: number,
): Promise<ScriptedWeb> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** A listener that serves `body` at the challenge's path and 404 elsewhere. */
export function serving(body: string | Buffer): RequestListener {
  return (request, response) => {
    if (request.url === CHALLENGE_PATH) response.end(body)
    else response.writeHead(404).end()
  }
}

export const answering: RequestListener = serving(KEY_AUTHORIZATION)

/** A job for `demo.test` at 127.0.0.1 with nothing blocked and more time than a stalled machine takes; `changes` on top. */
export function aJob(port: number, changes: Partial<Http01Job> = {}): Http01Job {
  return {
    type: 'http-01',
    identifier: { type: 'dns', value: 'demo.test' },
    token: TOKEN,
    keyAuthorization: KEY_AUTHORIZATION,
    timeoutMs: WAIT_MS,
    port,
    maxResponseBytes: 65536,
    blockedNetworks: [],
    userAgent: 'chancery-test/1.0',
    dns: { resolvers: [], zones: [{ zone: 'test', addresses: ['127.0.0.1'] }], timeoutMs: WAIT_MS, retries: 2 },
    ...changes,
  }
}
