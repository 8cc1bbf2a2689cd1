/** A self-signed certificate that fits no name and has expired: http-01 must not care. */

import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'

export async function selfSigned(): Promise<{ key: string; cert: string }> {
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
