/** The server certificate that the service issues to itself (`server.tls.self_issued_names`), kept in files and renewed. */

import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import path from 'node:path'
import type { CaIssuer } from '../ca/backend.ts'
import { renderIssuerChain } from '../services/chain-download.ts'
import type { Issuance } from '../services/issuance.ts'
import { describeFileError } from '../shared/lib/file-error.ts'
import { encodePem } from '../shared/pki/pem.ts'
import { parseSpki } from '../shared/pki/spki.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'

export interface ServerCertificateFiles {
  certPath: string
  keyPath: string
}

/** Renewed when less than this share of the lifetime is left. */
const RENEW_AT_REST = 1 / 3

/**
 * Issues when there is no certificate, it is for other names, by another issuer, or due for renewal.
 * @returns whether the files were written
 * @throws Error that names the key when a file cannot be written; nothing has been issued then
 */
export async function ensureServerCertificate(
  files: ServerCertificateFiles,
  names: readonly string[],
  issuance: Pick<Issuance, 'issueToSelf' | 'issuerForSelf'>,
  now: Date,
): Promise<boolean> {
  if (isGood(files, names, issuance.issuerForSelf('ec', now), now)) return false
  requireWritable('server.tls.key_path', files.keyPath)
  requireWritable('server.tls.cert_path', files.certPath)
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = parseSpki(publicKey.export({ type: 'spki', format: 'der' }))
  const { der, issuer: signedBy } = await issuance.issueToSelf(names.map(toIdentifier), spki, now)
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

/** Undefined when a file is missing or holds nothing of the kind: the service made both and makes them anew. */
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

/** About as much as will be written: a disk that is full takes an empty file. */
const PROBE = Buffer.alloc(8192)

/** A certificate that cannot be kept would be issued again at every start, and each of them recorded. */
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

/** Whatever the umask: who may write to the folder may put another key there. */
const makeFolder = (file: string) => mkdirSync(path.dirname(file), { recursive: true, mode: 0o755 })

/** Whole or not at all; a crash between the two files leaves a key that does not fit, which is then issued anew. */
function replaceFile(file: string, content: string, mode: number): void {
  makeFolder(file)
  writeFileSync(newFile(file), content, { mode })
  renameSync(newFile(file), file)
}
