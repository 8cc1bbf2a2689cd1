/**
 * `chancery-signer keygen`: makes a key in a token or a file, and a self-signed root or a request for a CA certificate.
 *
 * All checks come before the key, because an operator may lack the right to delete a key in a token. Every signed
 * document is parsed and verified before it is written.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import {
  parseSpki,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  subjectKeyIdentifier,
} from '../../src/shared/pki/algorithms.ts'
import { buildCaRequestInfo, buildRootTbsCertificate } from '../../src/shared/pki/ca-certificate.ts'
import { assembleCertificate, parseCertificate, verifyCertificateSignature } from '../../src/shared/pki/certificate.ts'
import { parseCsr, verifyCsrSignature } from '../../src/shared/pki/csr.ts'
import { encodeNameText, formatName, parseName } from '../../src/shared/pki/name.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { sha256Hex } from '../audit/line.ts'
import type { SecretSource } from '../keys/secret.ts'
import { type CeremonyLog, logged } from './log.ts'
import { type KeyShape, makeFileKey, makeTokenKey, type NewKey, type TokenKeyRequest, writeNewFile } from './new-key.ts'

export interface CeremonyPlan {
  /** Folder for certificate or request, log, and a file key. */
  out: string
  shape: KeyShape
  hash: 'sha256' | 'sha384' | 'sha512'
  /** RFC 4514. */
  subject: string
  pathLength: number | undefined
  /** Validity of a self-signed root; undefined makes a request. */
  rootDays: number | undefined
  place: { token: TokenKeyRequest } | { passphrase: string | undefined }
  /** Source of the PIN or passphrase. */
  secret: SecretSource
  /** Shown in the log. */
  program: string
}

export const CEREMONY_FILES = {
  key: 'key.pem',
  root: 'root.pem',
  request: 'request.csr',
  log: 'ceremony.log',
} as const

export const DAY_MS = 86_400_000
/** Clients with slow clocks accept the certificate at once. */
export const BACKDATE_MS = 3_600_000

/** 128 random bits after a fixed octet, which keeps the INTEGER positive and its length constant. */
export const newSerialNumber = (): Buffer => Buffer.concat([Buffer.of(1), randomBytes(16)])

/**
 * @param show gets every line of the log immediately
 * @throws Error in one sentence; the log holds the steps done
 */
export async function runCeremony(plan: CeremonyPlan, show: (line: string) => void): Promise<void> {
  const nameDer = encodeNameText(plan.subject)
  const files = ceremonyFiles(plan)
  mkdirSync(plan.out, { recursive: true, mode: 0o700 })
  for (const file of [files.document, files.key]) {
    if (file !== undefined && existsSync(file)) throw new Error(`${file}: exists already`)
  }

  const facts = { program: plan.program, 'Node.js': process.version, subject: plan.subject }
  await logged('ceremony', facts, { show, file: files.log }, async (log) => {
    await makeAndCertify(plan, nameDer, files, log)
    log.step('ceremony ends')
  })
}

interface CeremonyFiles {
  log: string
  document: string
  key?: string
}

function ceremonyFiles({ out, place, rootDays }: CeremonyPlan): CeremonyFiles {
  const at = (name: string) => path.join(out, name)
  return {
    log: at(CEREMONY_FILES.log),
    document: at(rootDays === undefined ? CEREMONY_FILES.request : CEREMONY_FILES.root),
    ...('passphrase' in place && { key: at(CEREMONY_FILES.key) }),
  }
}

async function makeAndCertify(plan: CeremonyPlan, nameDer: Buffer, files: CeremonyFiles, log: CeremonyLog) {
  const { shape, place } = plan
  log.step(`making a key of type ${shape.type}${shape.type === 'RSA' ? ` with ${shape.bits} bits` : ''}`)
  const key =
    'token' in place ? await makeTokenKey(shape, place.token) : await makeFileKey(shape, files.key!, place.passphrase)
  try {
    const spki = parseSpki(key.spki)
    log.step('key made', {
      ...key.facts,
      'SHA-256 of the public key (SubjectPublicKeyInfo)': sha256Hex(key.spki),
      'key identifier': subjectKeyIdentifier(spki.keyBits).toString('hex'),
    })
    const pem =
      plan.rootDays === undefined
        ? await makeRequest(plan, nameDer, key, log)
        : await makeRoot(plan, plan.rootDays, nameDer, key, log)
    writeNewFile(files.document, pem, 0o644)
    log.step(`wrote ${files.document}`, { 'SHA-256 of the file': sha256Hex(pem) })
  } finally {
    await key.close()
  }
}

async function makeRoot(plan: CeremonyPlan, days: number, nameDer: Buffer, key: NewKey, log: CeremonyLog) {
  const algorithm = algorithmOf(plan)
  const notBefore = new Date(Math.floor((Date.now() - BACKDATE_MS) / 1000) * 1000)
  const tbs = buildRootTbsCertificate({
    nameDer,
    spki: key.spki,
    pathLength: plan.pathLength,
    serialNumber: newSerialNumber(),
    signatureAlgorithm: algorithm,
    notBefore,
    notAfter: new Date(notBefore.getTime() + days * DAY_MS - 1000),
  })
  const certificate = parseCertificate(assembleCertificate(tbs, algorithm, await key.sign(algorithm, tbs)))
  if (!verifyCertificateSignature(certificate, key.spki)) throw new Error('the signature does not verify')
  const facts = certificate.tbs
  log.step('self-signed root made, read back and verified', {
    subject: formatName(facts.subject),
    'serial number': facts.serialNumber.toString('hex'),
    algorithm,
    'valid from': facts.notBefore.toISOString(),
    'valid until': facts.notAfter.toISOString(),
    'path length': facts.pathLength === undefined ? 'any' : String(facts.pathLength),
    'SHA-256 fingerprint': sha256Hex(certificate.der),
  })
  return encodePem('CERTIFICATE', certificate.der)
}

async function makeRequest(plan: CeremonyPlan, nameDer: Buffer, key: NewKey, log: CeremonyLog) {
  const algorithm = algorithmOf(plan)
  const info = buildCaRequestInfo({ nameDer, spki: key.spki, pathLength: plan.pathLength })
  // A request has the outer structure of a certificate (RFC 2986 §4.2).
  const request = parseCsr(assembleCertificate(info, algorithm, await key.sign(algorithm, info)))
  if (!verifyCsrSignature(request)) throw new Error('the signature does not verify')
  log.step('request for a CA certificate made, read back and verified', {
    subject: formatName(parseName(request.subjectDer)),
    algorithm,
    'SHA-256 of the request': sha256Hex(request.der),
  })
  return encodePem('CERTIFICATE REQUEST', request.der)
}

/** Tells an operator the steps after the ceremony. */
export function nextSteps(plan: CeremonyPlan): string[] {
  const files = ceremonyFiles(plan)
  const isRoot = plan.rootDays !== undefined
  const certificate = isRoot ? files.document : 'issuer.pem'
  return [
    '',
    ...(isRoot
      ? []
      : [`Have ${files.document} signed (sign-request, or your root CA); what comes back is issuer.pem below.`, '']),
    'For the configuration of chancery-signer:',
    '',
    `    hash: ${plan.hash}`,
    `    certificate: ${certificate}`,
    '    key:',
    ...('token' in plan.place
      ? [...tokenLines(plan.place.token), ...secretLines('        pin', plan.secret)]
      : [`      file: ${files.key}`, ...secretLines('      passphrase', plan.secret)]),
    '',
    `Keep ${files.log}.`,
  ]
}

function tokenLines({ library, token, label, id }: TokenKeyRequest): string[] {
  return [
    '      pkcs11:',
    `        library: ${library}`,
    ...(token.label === undefined ? [] : [`        token: ${token.label}`]),
    ...(token.slot === undefined ? [] : [`        slot: ${token.slot}`]),
    `        label: ${label}`,
    `        id: "${id}"`,
  ]
}

function secretLines(key: string, { file, env, prompt }: SecretSource): string[] {
  if (file) return [`${key}_file: ${file}`]
  if (env) return [`${key}_env: ${env}`]
  return prompt ? [`${key}_prompt: true`] : []
}

function algorithmOf({ shape, hash }: CeremonyPlan): SignatureAlgorithm {
  const kind = shape.type === 'RSA' ? 'rsa' : shape.type === 'Ed25519' ? 'ed25519' : 'ec'
  const found = Object.entries(SIGNATURE_ALGORITHMS).find(
    ([, facts]) => facts.keyKind === kind && (facts.hash === null || facts.hash === hash),
  )
  return found![0] as SignatureAlgorithm
}
