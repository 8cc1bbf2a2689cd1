/**
 * Checks the files that a configuration names before a start: they exist, are readable, and have the right content.
 *
 * Every message begins with the key. Only the signer opens the CA key.
 */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { readSharedSecret } from '../../signer/protocol/handshake.ts'
import { signerBackend, usesBackend } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { CLOSED, openToAll, tooOpen } from '../installation/places.ts'
import { readRootsPem } from '../services/trust-bundle.ts'
import { readEabSecret } from '../settings/account-settings.ts'
import { caModules } from '../settings/backend-settings.ts'
import type { ConfigNotice } from '../shared/config-file/notice.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { readBytes, readCertificates } from '../shared/lib/files.ts'

export interface FileFindings {
  errors: ConfigNotice[]
  warnings: ConfigNotice[]
}

/** A key and its file, null for an absent key. `look` returns warnings and throws errors, each in one sentence. */
interface NamedFile {
  key: string
  file: string | null
  look(file: string): string[]
}

/** Checks the files for `chancery serve`. */
export function inspectServiceFiles(config: Config): FileFindings {
  const { tls } = config.server
  const own = tls.self_issued_names.length > 0
  return together([
    own
      ? inspect([kept('server.tls.cert_path', tls.cert_path), kept('server.tls.key_path', tls.key_path)])
      : inspectPair('server.tls.cert_path', tls.cert_path, 'server.tls.key_path', tls.key_path),
    inspectBackendFiles(config),
    inspect([
      { key: 'acme.eab_key_file', file: config.acme.eab_key_file, look: eabSecret },
      { key: 'api.roots_file', file: config.api.roots_file, look: roots },
      { key: 'database.sslrootcert', file: config.database.sslrootcert, look: certificates },
      { key: 'security.blocked_keys_file', file: config.security.blocked_keys_file, look: readable },
    ]),
    ...config.challenges.perspectives.flatMap((one, index) => {
      const key = `challenges.perspectives[${index}]`
      return [
        inspect([{ key: `${key}.ca_path`, file: one.ca_path, look: certificates }]),
        inspectPair(`${key}.client_cert_path`, one.client_cert_path, `${key}.client_key_path`, one.client_key_path),
      ]
    }),
  ])
}

/** Checks the files of every CA backend in use. */
export function inspectBackendFiles(config: Config): FileFindings {
  return together([inspectSignerFiles(config), inspectExternalFiles(config), inspectModuleFiles(config)])
}

/** Checks the files for the connection to a signer, or for the signer that the service starts. */
function inspectSignerFiles({ ca }: Config): FileFindings {
  const backend = signerBackend(ca)
  if (backend === undefined) return inspect([])
  if (ca.signer.socket !== null)
    return inspect([{ key: 'ca.signer.secret_file', file: ca.signer.secret_file, look: sharedSecret }])
  if (backend === 'hsm') {
    const { pkcs11_library: library } = ca.hsm
    return inspect([
      { key: 'ca.hsm.issuer_cert_path', file: ca.hsm.issuer_cert_path, look: issuerCertificate },
      { key: 'ca.hsm.chain_path', file: ca.hsm.chain_path, look: certificates },
      // The system searches its own folders for a library name without a slash.
      { key: 'ca.hsm.pkcs11_library', file: library?.includes('/') ? library : null, look: readable },
    ])
  }
  return inspect([
    { key: 'ca.internal.root_cert_path', file: ca.internal.root_cert_path, look: issuerCertificate },
    { key: 'ca.internal.root_key_path', file: ca.internal.root_key_path, look: closedKey },
    { key: 'ca.internal.chain_path', file: ca.internal.chain_path, look: certificates },
  ])
}

function inspectModuleFiles(config: Config): FileFindings {
  const key = 'ca.extension_settings.trust_anchors'
  const files = caModules(config).flatMap(({ trustAnchors }) => trustAnchors)
  return inspect(files.map((file) => ({ key, file, look: certificates })))
}

function inspectExternalFiles(config: Config): FileFindings {
  if (!usesBackend(config, 'external')) return inspect([])
  const { ca_cert_path, trust_anchors, client_cert_path, client_key_path } = config.ca.external
  return together([
    inspect([
      { key: 'ca.external.ca_cert_path', file: ca_cert_path, look: certificates },
      ...trust_anchors.map((file) => ({ key: 'ca.external.trust_anchors', file, look: certificates })),
    ]),
    inspectPair('ca.external.client_cert_path', client_cert_path, 'ca.external.client_key_path', client_key_path),
  ])
}

/** Checks the files for `chancery perspective`. */
export function inspectPerspectiveFiles({ perspective }: Config): FileFindings {
  return together([
    inspectPair('perspective.cert_path', perspective.cert_path, 'perspective.key_path', perspective.key_path),
    inspect([{ key: 'perspective.client_ca_path', file: perspective.client_ca_path, look: certificates }]),
  ])
}

function together(findings: readonly FileFindings[]): FileFindings {
  return {
    errors: findings.flatMap(({ errors }) => errors),
    warnings: findings.flatMap(({ warnings }) => warnings),
  }
}

function inspect(files: readonly NamedFile[]): FileFindings {
  const findings: FileFindings = { errors: [], warnings: [] }
  for (const { key, file, look } of files) {
    if (file === null) continue
    try {
      for (const message of look(path.resolve(file))) findings.warnings.push({ path: key, message })
    } catch (error) {
      findings.errors.push({ path: key, message: (error as Error).message })
    }
  }
  return findings
}

/** Checks that a certificate and its private key belong together. */
function inspectPair(certKey: string, certFile: string | null, keyKey: string, keyFile: string | null): FileFindings {
  const findings = inspect([
    { key: certKey, file: certFile, look: certificates },
    { key: keyKey, file: keyFile, look: privateKey },
  ])
  if (certFile === null || keyFile === null || findings.errors.length > 0) return findings
  const [certPath, keyPath] = [path.resolve(certFile), path.resolve(keyFile)]
  const certificate = new X509Certificate(readFileSync(certPath))
  if (certificate.checkPrivateKey(parseKey(keyPath, readFileSync(keyPath)))) return findings
  const message = `${keyPath}: is not the key of the first certificate in ${certPath} (${certKey})`
  return { ...findings, errors: [{ path: keyKey, message }] }
}

function readable(file: string): string[] {
  try {
    accessSync(file, constants.R_OK)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  if (!statSync(file).isFile()) throw new Error(`${file}: is not a file`)
  return []
}

function certificates(file: string): string[] {
  const now = new Date()
  return readCertificates(file).flatMap((certificate, index) => {
    const end = new Date(certificate.validTo)
    return end < now ? [`${file}: certificate ${index + 1} in it has expired, at ${end.toISOString()}`] : []
  })
}

/** Only certificates that have signed themselves. */
function roots(file: string): string[] {
  const warnings = certificates(file)
  try {
    readRootsPem(readBytes(file).toString('latin1'))
    return warnings
  } catch (cause) {
    throw new Error(`${file}: ${(cause as Error).message}`, { cause })
  }
}

/** The certificate that signs here; without it nothing can be issued. */
function issuerCertificate(file: string): string[] {
  const [issuer] = readCertificates(file)
  const warnings = certificates(file)
  if (issuer && new Date(issuer.validTo) < new Date()) throw new Error(warnings[0])
  return warnings
}

function privateKey(file: string): string[] {
  parseKey(file, readBytes(file))
  return openToOthers(file)
}

function parseKey(file: string, pem: Buffer): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch (cause) {
    const why = pem.includes('ENCRYPTED')
      ? 'holds an encrypted key, and there is no setting for a passphrase'
      : 'holds no private key in PEM form'
    throw new Error(`${file}: ${why}`, { cause })
  }
}

function sharedSecret(file: string): string[] {
  readSharedSecret(file)
  return []
}

function eabSecret(file: string): string[] {
  readEabSecret(file)
  return openToOthers(file)
}

/** A key file that only its owner can read, as the signer requires. */
function closedKey(file: string): string[] {
  readable(file)
  const mode = permissionsOf(file)
  if (tooOpen(CLOSED, mode)) throw new Error(`${file}: mode ${mode.toString(8)} lets others read it; use 600 or 400`)
  return []
}

function openToOthers(file: string): string[] {
  const mode = permissionsOf(file)
  return !openToAll(mode) ? [] : [`${file}: mode ${mode.toString(8)} lets every user read it; use 600 or 640`]
}

const permissionsOf = (file: string): number => statSync(file).mode & 0o777

/** A file that the service itself writes and replaces (`server.tls.self_issued_names`). */
function kept(key: string, file: string | null): NamedFile {
  return {
    key,
    file,
    look(place) {
      const exists = existsSync(place)
      if (exists) readable(place)
      const problem = writeProblem(path.dirname(place))
      if (problem === undefined) return []
      const message = `${place}: ${problem}`
      if (!exists) throw new Error(message)
      return [`${message}; the certificate cannot be renewed`]
    },
  }
}

/** Checks the folder, or the nearest existing folder above it. */
function writeProblem(folder: string): string | undefined {
  try {
    if (!statSync(folder).isDirectory()) return `cannot be written: ${folder} is no folder`
    accessSync(folder, constants.W_OK | constants.X_OK)
    return undefined
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    if (isMissing && path.dirname(folder) !== folder) return writeProblem(path.dirname(folder))
    return `cannot be written: ${describeFileError(error)} (${folder})`
  }
}
