/** Certificates and lists of any age, signed by the issuer of a stand or by nobody else. */

import 'reflect-metadata'
import { randomBytes, webcrypto } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import * as x509 from '@peculiar/x509'

x509.cryptoProvider.set(webcrypto)

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY_MS = 86_400_000

export interface CertificateOptions {
  host?: string
  daysAgo?: number
  days?: number
  /** Whether the issuer's certificate is sent, too. */
  chain?: boolean
  self?: boolean
}

const pemOf = (label: string, der: ArrayBuffer) => `${x509.PemConverter.encode(der, label)}\n`

async function issuerIn(folder: string) {
  const certificate = new x509.X509Certificate(readFileSync(path.join(folder, 'issuer.pem'), 'utf8'))
  const [pkcs8] = x509.PemConverter.decode(readFileSync(path.join(folder, 'issuer.key'), 'utf8'))
  const key = await webcrypto.subtle.importKey('pkcs8', pkcs8!, ALGORITHM, false, ['sign'])
  return { certificate, key }
}

/** @returns a file with key and chain, as HAProxy and nginx take them */
export async function makeCertificate(folder: string, name: string, options: CertificateOptions = {}): Promise<string> {
  const { host = 'localhost', daysAgo = 0, days = 60, chain = true, self = false } = options
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const issuer = await issuerIn(folder)
  const notBefore = new Date(Date.now() - daysAgo * DAY_MS - 60_000)
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: randomBytes(8).toString('hex').replace(/^./, '1'),
    subject: `CN=${host}`,
    issuer: self ? `CN=${host}` : issuer.certificate.subject,
    notBefore,
    notAfter: new Date(notBefore.getTime() + days * DAY_MS),
    publicKey: keys.publicKey,
    signingKey: self ? keys.privateKey : issuer.key,
    signingAlgorithm: ALGORITHM,
    extensions: [new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: host }])],
  })
  const parts = [
    pemOf('PRIVATE KEY', await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)),
    pemOf('CERTIFICATE', certificate.rawData),
    ...(chain && !self ? [pemOf('CERTIFICATE', issuer.certificate.rawData)] : []),
  ]
  const file = path.join(folder, `${name}.pem`)
  writeFileSync(file, parts.join(''), { mode: 0o600 })
  return file
}

/** Number 1, in `lists/default`. @param options.foreign signed by another key of the same name */
export async function makeList(folder: string, { daysAgo = 0, foreign = false }): Promise<void> {
  const issuer = await issuerIn(folder)
  const other = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const thisUpdate = new Date(Date.now() - daysAgo * DAY_MS - 60_000)
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.certificate.subject,
    thisUpdate,
    nextUpdate: new Date(thisUpdate.getTime() + DAY_MS),
    signingAlgorithm: ALGORITHM,
    signingKey: foreign ? other.privateKey : issuer.key,
    extensions: [new x509.Extension('2.5.29.20', false, Uint8Array.of(2, 1, 1))],
  })
  mkdirSync(path.join(folder, 'lists'), { recursive: true })
  writeFileSync(path.join(folder, 'lists/default'), Buffer.from(list.rawData))
}
