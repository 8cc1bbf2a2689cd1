/** TLS servers for tls-alpn-01, on loopback and free ports; bare ones are `startRaw` of scripted-web. */

import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { createServer, type TlsOptions } from 'node:tls'
import type { TlsAlpn01Job } from '../../workers/job.ts'
import { WAIT_MS } from '../support/patience.ts'
import { type AcmeCertificate, acmeCertificate, DIGEST } from './acme-certificate.ts'
import { kept } from './scripted-dns.ts'

export interface ScriptedTls {
  port: number
  /** What every ClientHello named. */
  hellos: { serverName: string | undefined; protocols: readonly string[] }[]
  /** Octets that came after the handshake. */
  received(): number
  close(): Promise<void>
}

export interface TlsScript {
  certificate?: AcmeCertificate
  /** What the server chooses; undefined ignores ALPN, `none` refuses the handshake. */
  choose?: 'acme-tls/1' | 'none' | undefined
  options?: TlsOptions
  host?: string
  port?: number
}

export async function startTls(script: TlsScript = {}): Promise<ScriptedTls> {
  const { certificate = acmeCertificate(), host = '127.0.0.1', port = 0 } = script
  const choose = 'choose' in script ? script.choose : 'acme-tls/1'
  const hellos: ScriptedTls['hellos'] = []
  let received = 0
  const server = createServer({
    ...certificate.pem,
    ...(choose !== undefined && {
      ALPNCallback: ({ servername, protocols }: { servername: string; protocols: string[] }) => {
        hellos.push({ serverName: servername === '' ? undefined : servername, protocols })
        return choose === 'none' ? undefined : choose
      },
    }),
    ...script.options,
  })
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => {})
  server.on('secureConnection', (socket) => {
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      received += chunk.length
    })
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    hellos,
    received: () => received,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

export const keptTls = (t: TestContext, ...how: Parameters<typeof startTls>) => kept(t, startTls(...how))

/** A job for `demo.test` at 127.0.0.1 with nothing blocked and more time than a stalled machine takes; `changes` on top. */
export function anAlpnJob(port: number, changes: Partial<TlsAlpn01Job> = {}): TlsAlpn01Job {
  return {
    type: 'tls-alpn-01',
    identifier: { type: 'dns', value: 'demo.test' },
    keyAuthorizationDigest: DIGEST.toString('base64url'),
    timeoutMs: WAIT_MS,
    port,
    blockedNetworks: [],
    dns: { resolvers: [], zones: [{ zone: 'test', addresses: ['127.0.0.1'] }], timeoutMs: WAIT_MS, retries: 2 },
    ...changes,
  }
}
