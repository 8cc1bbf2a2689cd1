/** Answers tls-alpn-01 challenges (RFC 8737 §3) with a certificate made for each handshake. */

import { createSecureContext, createServer, type TLSSocket } from 'node:tls'
import { acmeCertificateMaker } from './acme-certificate.ts'
import type { Proofs } from './proofs.ts'

export interface TlsAlpn01Responder {
  port: number
  /** Handshakes begun for names that have a proof. */
  readonly answered: number
  close(): Promise<void>
}

const ACME_TLS_1 = 'acme-tls/1'

/** @throws Error when the port cannot be listened on. */
export async function startTlsAlpn01Responder(host: string, port: number, proofs: Proofs): Promise<TlsAlpn01Responder> {
  const maker = acmeCertificateMaker()
  const sockets = new Set<TLSSocket>()
  let answered = 0
  const server = createServer({
    ALPNProtocols: [ACME_TLS_1],
    SNICallback(name, done) {
      const digest = proofs.find(name.toLowerCase())
      if (digest === undefined) return done(new Error(`nothing to show for ${name}`))
      answered++
      done(null, createSecureContext({ key: maker.key, cert: maker.certificateFor(name.toLowerCase(), digest) }))
    },
  })
  server.on('secureConnection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // The validator hangs up as soon as it has seen the certificate.
    socket.on('error', () => socket.destroy())
  })
  // A handshake that fails shows at the authorization.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`tls-alpn-01 responder on ${host}:${port}: ${error.message}`)))
    server.listen(port, host, () => resolve())
  })
  return {
    port: (server.address() as { port: number }).port,
    get answered() {
      return answered
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
