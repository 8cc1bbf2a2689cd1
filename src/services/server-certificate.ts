/** The server certificate that the service issues to itself (`server.tls.self_issued_names`): files and renewal. */

import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import path from 'node:path'
import type { CaIssuer } from '../ca/backend.ts'
import { constraintRefusal } from '../domain/identifier-policy.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { parseSpki } from '../shared/pki/algorithms.ts'
import { encodePem } from '../shared/pki/pem.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { renderIssuerChain } from './chain-download.ts'
import type { Issuance } from './issuance.ts'

export interface ServerCertificateFiles {
  certPath: string
  keyPath: string
}

/** Renewal begins when less than this share of the lifetime is left. */
const RENEW_AT_REST = 1 / 3

/** @returns the names that the issuer's name constraints admit, and the others */
export function admittedNames(
  names: readonly string[],
  issuer: Pick<CaIssuer, 'constraints'> | undefined,
): { admitted: string[]; outside: string[] } {
  const isOutside = (name: string) => constraintRefusal(toIdentifier(name), issuer?.constraints ?? []) !== undefined
  return { admitted: names.filter((name) => !isOutside(name)), outside: names.filter(isOutside) }
}

/**
 * Issues when the certificate is missing, due for renewal, or has other names or another issuer.
 *
 * @returns whether the files were written
 * @throws Error that names the key when a file cannot be written; nothing is issued then
 */
export async function ensureServerCertificate(
  files: ServerCertificateFiles,
  names: readonly string[],
  issuance: Pick<Issuance, 'issueToSelf' | 'issuerForSelf'>,
  now: Date,
): Promise<boolean> {
  const issuer = issuance.issuerForSelf('ec', now)
  const { admitted } = admittedNames(names, issuer)
  if (admitted.length === 0)
    throw new Error('server.tls.self_issued_names: the name constraints of the CA admit none of its names')
  if (isGood(files, admitted, issuer, now)) return false
  requireWritable('server.tls.key_path', files.keyPath)
  requireWritable('server.tls.cert_path', files.certPath)
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = parseSpki(publicKey.export({ type: 'spki', format: 'der' }))
  const { der, issuer: signedBy } = await issuance.issueToSelf(admitted.map(toIdentifier), spki, now)
  const chain = encodePem('CERTIFICATE', der) + renderIssuerChain(signedBy.chain, false)
  replaceFile(files.keyPath, privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, 0o600)
  replaceFile(files.certPath, chain, 0o644)
  return true
}

function isGood(
  files: ServerCertificateFiles,
  names: readonly string[],
  issuer: CaIssuer | undefined,
  now: Date,
): boolean {
  const pair = readPair(files)
  if (!pair) return false
  const { certificate, publicKey } = pair
  const start = Date.parse(certificate.validFrom)
  const end = Date.parse(certificate.validTo)
  return (
    end - now.getTime() > (end - start) * RENEW_AT_REST &&
    names.every((name) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined) &&
    certificate.publicKey.equals(publicKey) &&
    (issuer === undefined || certificate.checkIssued(new X509Certificate(issuer.certificate)))
  )
}

/** @returns undefined when a file is missing or unusable; the service then creates both again */
function readPair({ certPath, keyPath }: ServerCertificateFiles) {
  if (!existsSync(certPath) || !existsSync(keyPath)) return undefined
  const [certificatePem, keyPem] = [readFileSync(certPath), readFileSync(keyPath)]
  try {
    return { certificate: new X509Certificate(certificatePem), publicKey: createPublicKey(keyPem) }
  } catch {
    return undefined
  }
}

function toIdentifier(name: string): Identifier {
  return { type: isIP(name) === 0 ? 'dns' : 'ip', value: name }
}

/** About the size of the files: a full disk still accepts an empty file. */
const PROBE = Buffer.alloc(8192)

/** An unwritable certificate would be issued and recorded again at every start. */
function requireWritable(key: string, file: string): void {
  try {
    makeFolder(file)
    writeFileSync(newFile(file), PROBE, { mode: 0o600 })
    rmSync(newFile(file))
  } catch (cause) {
    throw new Error(`${key}: ${file}: cannot be written: ${describeFileError(cause)}`, { cause })
  }
}

const newFile = (file: string) => `${file}.new`

/** A fixed mode, because write access to the folder would let others replace the key. */
const makeFolder = (file: string) => mkdirSync(path.dirname(file), { recursive: true, mode: 0o755 })

/** Replaces the file atomically. After a crash between the two files they do not match and are reissued. */
function replaceFile(file: string, content: string, mode: number): void {
  makeFolder(file)
  writeFileSync(newFile(file), content, { mode })
  renameSync(newFile(file), file)
}
