/** What a set-up has found on the host, and where things belong on it. Plain data: the plan is made from it alone. */

import { createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { parseCsr } from '../shared/pki/csr.ts'
import { decodePem } from '../shared/pki/pem.ts'

export const PLACES = {
  folder: '/etc/chancery',
  config: '/etc/chancery/config.yaml',
  signerConfig: '/etc/chancery/signer.yaml',
  serviceEnv: '/etc/chancery/service.env',
  signerEnv: '/etc/chancery/signer.env',
  secret: '/etc/chancery/signer.secret',
  eabKey: '/etc/chancery/eab.key',
  auditKey: '/etc/chancery/audit.key',
  root: '/etc/chancery/root.pem',
  chain: '/etc/chancery/chain.pem',
  issuer: '/etc/chancery/issuer.pem',
  issuerKey: '/etc/chancery/issuer.key',
  issuerPassphrase: '/etc/chancery/issuer.passphrase',
  answers: '/etc/chancery/setup.yaml',
  request: '/etc/chancery/request.csr',
  proxyExample: '/etc/chancery/proxy.example.conf',
  proxyCertificate: '/etc/chancery/proxy.pem',
  serviceState: '/var/lib/chancery',
  signerState: '/var/lib/chancery-signer',
  signerRun: '/run/chancery-signer',
  socket: '/run/chancery-signer/signer.sock',
  audit: '/var/lib/chancery-signer/audit.jsonl',
  ceremony: '/var/lib/chancery-signer/ceremony',
  softhsm: '/var/lib/chancery-signer/softhsm',
  softhsmConf: '/var/lib/chancery-signer/softhsm/softhsm2.conf',
  softhsmPin: '/var/lib/chancery-signer/softhsm/pin',
  tokenPin: '/var/lib/chancery-signer/token.pin',
  tlsFolder: '/var/lib/chancery/tls',
  decisions: '/var/lib/chancery/decisions.jsonl',
  serviceUnit: '/etc/systemd/system/chancery.service',
  signerUnit: '/etc/systemd/system/chancery-signer.service',
  tokenDropIn: '/etc/systemd/system/chancery-signer.service.d/hsm.conf',
  rootCa: '/root/chancery-root',
  secrets: '/root/chancery-secrets.txt',
  keptAnswers: '/root/chancery-answers.yaml',
} as const

/** The service and the signer. */
export const SERVICE = 'chancery'
export const SIGNER = 'chancery-signer'

/** Files of `deploy` that are there, by their path in it. */
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
  /** Texts of the files of PLACES that exist. */
  files: Readonly<Record<string, string>>
}

/** CA certificates brought by an import or by a request signed elsewhere, PEM. */
export interface GivenCertificates {
  issuer: string
  /** Those above it in order, the root last; empty where the issuer is one itself. */
  chain: readonly string[]
  /** The PKCS #12 file is encrypted as older programs do. */
  isLegacy?: boolean
}

export const isThere = ({ files }: Facts, file: string): boolean => Object.hasOwn(files, file)

/** @returns what is wrong with a port that the service is to open; one in its configuration is its own */
export const portObjection = (port: number, { openPorts, files }: Facts): string | undefined =>
  openPorts.includes(port) && !files[PLACES.config]?.includes(`port: ${port}\n`)
    ? `is taken: another program listens on port ${port} (ss -ltnp names it)`
    : undefined

/** The key and its request exist, and no certificate has come back, or one for another key. */
export function waitsForCertificate({ files }: Facts): boolean {
  const { [PLACES.request]: request, [PLACES.issuer]: issuer } = files
  return (
    request !== undefined &&
    (issuer === undefined || !certificateIn(PLACES.issuer, issuer).publicKey.equals(keyOf(request)))
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

/** Random values of this run, for files that need new ones. */
export interface FreshSecrets {
  token: string
}
