/**
 * Creates the certificates of the development CA (dev-ca.ts).
 *
 * The profiles follow RFC 5280 §4.2.1 and pass `openssl verify -x509_strict`. BasicConstraints and KeyUsage are
 * critical, both key identifiers are present, and the path length below the root is 0. There are no name constraints.
 */

import 'reflect-metadata'
import { randomBytes, webcrypto } from 'node:crypto'
import { chmodSync, existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import * as x509 from '@peculiar/x509'

/** Paths of PEM files. Everyone may read certificates; only the owner may read keys (PKCS #8). */
export interface DevCaFiles {
  root: string
  rootKey: string
  intermediate: string
  intermediateKey: string
}

const KEY_ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' } as const
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' } as const
const CA_USAGES = x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign
const ROOT_YEARS = 10
const INTERMEDIATE_YEARS = 5
/** Backdates certificates, because clocks of clients on other machines may be slow. */
const BACKDATE_MS = 60 * 60 * 1000

interface Issuer {
  certificate: x509.X509Certificate
  keys: webcrypto.CryptoKeyPair
}

/** Writes the key before the certificate, so that every certificate has its key. */
export async function makeRoot(files: DevCaFiles, now: Date): Promise<void> {
  const keys = await generateKeys()
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...(await commonParts(keys.publicKey, keys.publicKey, undefined)),
    // The random part distinguishes the roots of several installations in a trust store.
    name: `CN=Chancery Development Root ${randomBytes(3).toString('hex')}`,
    ...validity(now, ROOT_YEARS),
    keys,
  })
  await writeKey(files.rootKey, keys.privateKey)
  writeNew(files.root, `${certificate.toString('pem')}\n`, 0o644)
}

/** @throws Error when there is no root key to sign with */
export async function makeIntermediate(files: DevCaFiles, now: Date): Promise<void> {
  const root = await readIssuer(files)
  const keys = await generateKeys()
  const wanted = validity(now, INTERMEDIATE_YEARS)
  const certificate = await x509.X509CertificateGenerator.create({
    ...(await commonParts(keys.publicKey, root.keys.publicKey, 0)),
    subject: 'CN=Chancery Development Intermediate',
    issuer: root.certificate.subject,
    notBefore: wanted.notBefore,
    // A late intermediate must not outlive its root.
    notAfter: new Date(Math.min(wanted.notAfter.getTime(), root.certificate.notAfter.getTime())),
    publicKey: keys.publicKey,
    signingKey: root.keys.privateKey,
  })
  await writeKey(files.intermediateKey, keys.privateKey)
  writeNew(files.intermediate, `${certificate.toString('pem')}\n`, 0o644)
}

/** The parts common to both certificates; an undefined path length sets no limit. */
async function commonParts(
  subjectKey: webcrypto.CryptoKey,
  issuerKey: webcrypto.CryptoKey,
  pathLength: number | undefined,
) {
  return {
    serialNumber: serialNumber(),
    signingAlgorithm: SIGNATURE,
    extensions: [
      new x509.BasicConstraintsExtension(true, pathLength, true),
      new x509.KeyUsagesExtension(CA_USAGES, true),
      await x509.SubjectKeyIdentifierExtension.create(subjectKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuerKey),
    ],
  }
}

function validity(now: Date, years: number): { notBefore: Date; notAfter: Date } {
  // Certificate times have whole seconds (RFC 5280 §4.1.2.5).
  const notBefore = new Date(Math.floor((now.getTime() - BACKDATE_MS) / 1000) * 1000)
  const notAfter = new Date(notBefore)
  notAfter.setUTCFullYear(notAfter.getUTCFullYear() + years)
  return { notBefore, notAfter }
}

/** 128 random bits after a byte that keeps the INTEGER positive, without leading zeros (RFC 5280 §4.1.2.2). */
function serialNumber(): string {
  return `01${randomBytes(16).toString('hex')}`
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ['sign', 'verify'])
}

async function readIssuer({ root, rootKey, intermediate }: DevCaFiles): Promise<Issuer> {
  if (!existsSync(rootKey)) {
    throw new Error(
      `${intermediate} is missing and cannot be made anew without the root key; put it back as ${rootKey}`,
    )
  }
  const certificate = new x509.X509Certificate(readFileSync(root, 'utf8'))
  const pkcs8 = x509.PemConverter.decodeFirst(readFileSync(rootKey, 'utf8'))
  const privateKey = await webcrypto.subtle.importKey('pkcs8', pkcs8, KEY_ALGORITHM, false, ['sign'])
  const publicKey = (await certificate.publicKey.export(KEY_ALGORITHM, ['verify'])) as webcrypto.CryptoKey
  return { certificate, keys: { privateKey, publicKey } }
}

/** A key without a certificate comes from an interrupted start and has signed nothing, so replace it. */
async function writeKey(file: string, key: webcrypto.CryptoKey): Promise<void> {
  rmSync(file, { force: true })
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', key)
  writeNew(file, `${x509.PemConverter.encode(pkcs8, 'PRIVATE KEY')}\n`, 0o600)
}

/** Writes a temporary file and links it into place: complete or absent, and never over an existing file. */
function writeNew(file: string, text: string, mode: number): void {
  const half = `${file}.${process.pid}`
  writeFileSync(half, text, { mode, flush: true })
  chmodSync(half, mode)
  try {
    linkSync(half, file)
  } finally {
    rmSync(half, { force: true })
  }
}
