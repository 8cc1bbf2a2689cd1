/** Certificates that a former server has issued under a CA that is now ours: made with its key, past our signer. */

import { webcrypto as crypto, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { DevCaFiles } from '../../../src/dev/dev-ca-certificates.ts'
import { x509 } from '../../unit/shared/pki/support.ts'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

export interface FormerCertificate {
  /** The certificate, and its issuer behind it. */
  pem: string
  der: Buffer
  /** Lower-case hexadecimal. */
  serial: string
}

export interface FormerNames {
  /** RFC 4514; the first name as common name where it is left out. */
  subject?: string
  /** Without any, the certificate has no subject alternative name. */
  sans: readonly { type: 'dns' | 'ip' | 'email' | 'url' | 'upn'; value: string }[]
}

/** @param serial of a server that counts, it may have one octet */
export async function issueFormerly(
  ca: Pick<DevCaFiles, 'intermediate' | 'intermediateKey'>,
  names: readonly string[] | FormerNames,
  serial = `40${randomBytes(8).toString('hex')}`,
): Promise<FormerCertificate> {
  const { subject, sans }: FormerNames =
    'sans' in names ? names : { sans: names.map((value) => ({ type: 'dns', value })) }
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
    subject: subject ?? `CN=${sans[0]?.value}`,
    issuer: issuer.subjectName,
    notBefore: new Date(Date.now() - 80 * 86_400_000),
    notAfter: new Date(Date.now() + 10 * 86_400_000),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      ...(sans.length > 0 ? [new x509.SubjectAlternativeNameExtension([...sans])] : []),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  })
  return {
    pem: `${certificate.toString('pem')}\n${issuer.toString('pem')}\n`,
    der: Buffer.from(certificate.rawData),
    serial: serial.toLowerCase(),
  }
}
