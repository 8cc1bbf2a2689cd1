/** An issuer for certificates that nobody issues any more: its key is forgotten at once. */

import { createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { buildRootTbsCertificate } from '../../src/shared/pki/ca-certificate.ts'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { encodeCommonName } from '../../src/shared/pki/name.ts'

const YEAR_MS = 365 * 86_400_000

/** @returns DER of a self-signed certificate */
export function newIssuer(commonName: string): Buffer {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const now = Math.floor(Date.now() / 1000) * 1000
  const tbs = buildRootTbsCertificate({
    nameDer: encodeCommonName(commonName),
    spki: createPublicKey(privateKey).export({ type: 'spki', format: 'der' }),
    pathLength: 0,
    serialNumber: Buffer.concat([Buffer.of(0x4e), randomBytes(16)]),
    signatureAlgorithm: 'SHA256withECDSA',
    notBefore: new Date(now - 10 * YEAR_MS),
    notAfter: new Date(now + 10 * YEAR_MS),
  })
  return assembleCertificate(tbs, 'SHA256withECDSA', sign('sha256', tbs, privateKey))
}
