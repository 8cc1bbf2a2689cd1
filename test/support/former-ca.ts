/** Certificates that a former server has issued under a CA that is now ours: made with its key, past our signer. */

import { webcrypto as crypto, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import { x509 } from '../unit/shared/pki/support.ts'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

export interface FormerCertificate {
  /** The certificate, and its issuer behind it. */
  pem: string
  der: Buffer
  /** Lower-case hexadecimal. */
  serial: string
}

/** @param serial of a server that counts, it may have one octet */
export async function issueFormerly(
  ca: Pick<DevCaFiles, 'intermediate' | 'intermediateKey'>,
  names: readonly string[],
  serial = `40${randomBytes(8).toString('hex')}`,
): Promise<FormerCertificate> {
  const issuer = new x509.X509Certificate(readFileSync(ca.intermediate, 'utf8'))
  const signingKey = await crypto.subtle.importKey(
    'pkcs8',
    x509.PemConverter.decodeFirst(readFileSync(ca.intermediateKey, 'utf8')),
    ALGORITHM,
    false,
    ['sign'],
  )
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serial,
    subject: `CN=${names[0]}`,
    issuer: issuer.subjectName,
    notBefore: new Date(Date.now() - 80 * 86_400_000),
    notAfter: new Date(Date.now() + 10 * 86_400_000),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: 'dns', value }))),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  })
  return {
    pem: `${certificate.toString('pem')}\n${issuer.toString('pem')}\n`,
    der: Buffer.from(certificate.rawData),
    serial: serial.toLowerCase(),
  }
}
