/** The facts that a set-up finds on the host. They are plain data: the plan is made from them alone. */

import { createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { PATHS } from '../installation/places.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { constraintsOf } from '../shared/pki/certification-path.ts'
import { parseCsr } from '../shared/pki/csr.ts'
import { checkNameConstraints } from '../shared/pki/name-constraints.ts'
import { decodePem } from '../shared/pki/pem.ts'

/** Path below `deploy` → text, of each file that is there. */
export type DeployFiles = Readonly<Record<string, string>>

export interface Facts {
  /** Whether systemctl can start units here. */
  canStart: boolean
  users: readonly string[]
  /** Whether a package has brought the units. */
  unitsInstalled: boolean
  /** Newest PostgreSQL of this host; undefined without one. */
  postgres: number | undefined
  /** Ports of the clusters that run here. */
  postgresPorts: readonly number[]
  /** TCP ports that programs of this host listen on; none while the service itself runs. */
  openPorts: readonly number[]
  softhsm: string | undefined
  hasOpenssl: boolean
  /** Words that start each program; undefined for a signer that is not installed. */
  programs: { service: readonly string[]; signer: readonly string[] | undefined }
  deploy: DeployFiles
  /** Path → text, of each file of the table of places that exists. */
  files: Readonly<Record<string, string>>
}

/** CA certificates of an import, or of a request that another CA has signed, PEM. */
export interface GivenCertificates {
  issuer: string
  /** The certificates above the issuer in order, the root last; empty where the issuer is a root. */
  chain: readonly string[]
  /** The PKCS #12 file is encrypted in the way of older programs. */
  isLegacy?: boolean
}

export const isThere = ({ files }: Facts, file: string): boolean => Object.hasOwn(files, file)

/** @returns what is wrong with a port that the service is to open; one in its configuration is its own */
export const portObjection = (port: number, { openPorts, files }: Facts): string | undefined =>
  openPorts.includes(port) && !files[PATHS.config]?.includes(`port: ${port}\n`)
    ? `is taken: another program listens on port ${port} (ss -ltnp names it)`
    : undefined

/** The key and its request exist, and no certificate has come back, or one for another key. */
export function waitsForCertificate({ files }: Facts): boolean {
  const { [PATHS.request]: request, [PATHS.issuer]: issuer } = files
  return (
    request !== undefined &&
    (issuer === undefined || !certificateIn(PATHS.issuer, issuer).publicKey.equals(keyOf(request)))
  )
}

/** @throws Error that names the file */
export function certificateIn(file: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (cause) {
    throw new Error(`${file}: holds no certificate in PEM; put it there, or remove the file`, { cause })
  }
}

/** The public key of a request, PEM. @throws CsrError */
export function keyOf(request: string): KeyObject {
  const [{ der } = { der: Buffer.alloc(0) }] = decodePem(request)
  return createPublicKey({ key: parseCsr(der).spki.der, format: 'der', type: 'spki' })
}

/**
 * The certificate of an issuer that is there cannot be changed, so its name constraints limit the domains
 * (RFC 5280 §4.2.1.10).
 *
 * @param issuer PEM, perhaps with the certificates above it
 * @returns what is wrong with the domains, where the constraints leave one out
 */
export function outsideIssuer(domains: readonly string[], issuer = ''): string | undefined {
  const constraints = constraintsOf(decodePem(issuer).map(({ der }) => parseCertificate(der)))
  const isOutside = (value: string) =>
    checkNameConstraints({ subject: [], subjectAltNames: [{ kind: 'dNSName', value }] }, constraints) !== undefined
  const outside = domains.find(isOutside)
  return outside === undefined
    ? undefined
    : `has ${outside}, which the name constraints of the issuer leave out; it takes a new issuer (docs/operations/signer.md)`
}
