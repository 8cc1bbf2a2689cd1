/** Answers tls-alpn-01 challenges (RFC 8737 §3) with a certificate made for each handshake. */

import { generateKeyPairSync, sign } from 'node:crypto'
import { createSecureContext, createServer } from 'node:tls'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeExtension, writeSubjectAltName } from '../../src/shared/pki/extensions.ts'
import { encodeCommonName } from '../../src/shared/pki/name.ts'
import { EXTENSION } from '../../src/shared/pki/oids.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { writeUpToExtensions } from '../../src/shared/pki/tbs-certificate.ts'
import { listen, type Proofs, type Responder } from './listen.ts'

const ACME_TLS_1 = 'acme-tls/1'
const NAME = encodeCommonName('bench')
/** Validators ignore it (RFC 8737 §3). */
const VALIDITY = { notBefore: new Date('2025-01-01T00:00:00Z'), notAfter: new Date('2049-12-31T23:59:59Z') }

/** @throws Error when the port cannot be listened on */
export function startTlsAlpn01Responder(host: string, port: number, proofs: Proofs): Promise<Responder> {
  const { key, certificateFor } = certificateMaker()
  const server = createServer({
    ALPNProtocols: [ACME_TLS_1],
    SNICallback(name, done) {
      const digest = proofs.get(name.toLowerCase())
      if (digest === undefined) return done(new Error(`nothing to show for ${name}`))
      done(null, createSecureContext({ key, cert: certificateFor(name.toLowerCase(), digest) }))
    },
  })
  server.on('secureConnection', (socket) => socket.on('error', () => socket.destroy()))
  // A handshake that fails shows at the authorization.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  return listen(server, 'tls-alpn-01', host, port)
}

/** `digest` is the base64url of the SHA-256 of the key authorization; certificates are PEM and self-signed. */
export function certificateMaker() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = publicKey.export({ format: 'der', type: 'spki' })
  const signatureAlgorithm = 'SHA256withECDSA'
  const fields = { ...VALIDITY, spki, signatureAlgorithm, serialNumber: Buffer.of(1), issuerNameDer: NAME } as const
  return {
    key: privateKey.export({ format: 'pem', type: 'pkcs8' }),
    certificateFor(name: string, digest: string): string {
      const tbs = encodeDer((writer) =>
        writer.sequence(() => {
          writeUpToExtensions(writer, fields, NAME)
          writer.constructed(contextConstructedTag(3), () =>
            writer.sequence(() => {
              writeSubjectAltName(writer, { dnsNames: [name], ipAddresses: [] }, false)
              const octets = Buffer.from(digest, 'base64url')
              writeExtension(writer, EXTENSION.acmeIdentifier, true, () => writer.octetString(octets))
            }),
          )
        }),
      )
      return encodePem('CERTIFICATE', assembleCertificate(tbs, signatureAlgorithm, sign('sha256', tbs, privateKey)))
    },
  }
}
