/** Certificates for servers and callers on loopback: each vouches for itself. */

import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import * as x509 from '@peculiar/x509'

export interface TestCertificate {
  /** PEM. */
  cert: string
  key: string
}

/** For 127.0.0.1, ::1 and localhost; fit for both sides of a handshake. */
export async function loopbackCertificate(): Promise<TestCertificate> {
  x509.cryptoProvider.set(webcrypto)
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=loopback',
    serialNumber: '01',
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date(Date.now() - 3_600_000),
    notAfter: new Date(Date.now() + 86_400_000),
    extensions: [
      new x509.SubjectAlternativeNameExtension([
        { type: 'ip', value: '127.0.0.1' },
        { type: 'ip', value: '::1' },
        { type: 'dns', value: 'localhost' },
      ]),
    ],
  })
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
  return { cert: certificate.toString('pem'), key: x509.PemConverter.encode(pkcs8, 'PRIVATE KEY') }
}

/** Two files in a folder. */
export function writeCertificate(folder: string, name: string, { cert, key }: TestCertificate) {
  const files = { cert: path.join(folder, `${name}.pem`), key: path.join(folder, `${name}.key`) }
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key, { mode: 0o600 })
  return files
}
