/**
 * `chancery-signer sign-request`: a root key, in a file or a token, certifies the CA in a request.
 *
 * The certificate copies only name and key from the request. Extensions, path length and validity
 * come from the command, so the daemon accepts the certificate as an issuer.
 */

import { createPublicKey } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describeFileError } from '../../src/shared/lib/errors.ts'
import { buildCaTbsCertificate } from '../../src/shared/pki/ca-certificate.ts'
import {
  assembleCertificate,
  type Certificate,
  fingerprintSha256,
  parseCertificate,
  verifyCertificateSignature,
} from '../../src/shared/pki/certificate.ts'
import { constraintsOf } from '../../src/shared/pki/certification-path.ts'
import { type Csr, parseCsr, verifyCsrSignature } from '../../src/shared/pki/csr.ts'
import { DerError } from '../../src/shared/pki/der.ts'
import { parseName } from '../../src/shared/pki/name.ts'
import { admitsAnyName, describeSubtrees, type NameConstraints } from '../../src/shared/pki/name-constraints.ts'
import { decodePem, encodePem, type PemBlock, PemError } from '../../src/shared/pki/pem.ts'
import { checkSubjectKey, DEFAULT_SUBJECT_KEY_POLICY } from '../../src/shared/pki/weak-key.ts'
import type { KeyConfig } from '../config.ts'
import { checkIssuerCertificate, findAlgorithm, readCertificates } from '../issuers.ts'
import { type IssuerKeyFacts, KeyLoader, readKeySecret } from '../keys/load-key.ts'
import { BACKDATE_MS, CEREMONY_FILES, DAY_MS, newSerialNumber } from './keygen.ts'
import { logged } from './log.ts'
import { writeNewFile } from './new-key.ts'

const KEY_CLOSE_MS = 5000

/** Reads PIN or passphrase, signs, and closes the key. @throws Error in one sentence */
export async function signOnce(config: KeyConfig, facts: IssuerKeyFacts, tbs: Buffer): Promise<Buffer> {
  const loader = new KeyLoader()
  try {
    const key = await loader.load(config, await readKeySecret(config), facts)
    try {
      return await key.sign(tbs)
    } finally {
      await key.close()
    }
  } finally {
    await loader.close(KEY_CLOSE_MS)
  }
}

/** The members that every signature of a root's key needs. */
export interface RootPlan {
  /** PEM of the certificate of `key`. */
  root: string
  key: KeyConfig
  hash: 'sha256' | 'sha384' | 'sha512'
  days: number
  /** New file; the log goes to the same folder. */
  out: string
  /** Shown in the log. */
  program: string
}

export const logBeside = (out: string): string => path.join(path.dirname(out), CEREMONY_FILES.log)

/** The certificate is valid for `days`, and `out` will hold it. */
export interface SigningPlan extends RootPlan {
  /** PEM of the request. */
  request: string
  pathLength: number
  /** Undefined where the issuer may certify any name. */
  constraints: NameConstraints | undefined
  /** Where the root's CRL is published. */
  crlUrls: readonly string[]
  /** Where the root's certificate is published. */
  caIssuersUrls: readonly string[]
}

/** @param show gets every line of the log as it is written. @throws Error in one sentence */
export async function signRequest(plan: SigningPlan, show: (line: string) => void): Promise<void> {
  if (existsSync(plan.out)) throw new Error(`${plan.out}: exists already`)
  const root = readCertificates(plan.root)[0]!
  checkIssuerCertificate(plan.root, root)
  const request = readRequest(plan.request)
  const notBefore = new Date(Math.floor((Date.now() - BACKDATE_MS) / 1000) * 1000)
  const notAfter = new Date(notBefore.getTime() + plan.days * DAY_MS - 1000)
  checkFit(plan, root, request, notAfter)

  const facts = {
    program: plan.program,
    'Node.js': process.version,
    request: plan.request,
    'SHA-256 fingerprint of the root': fingerprintSha256(root.der),
  }
  await logged('signing of a request', facts, { show, file: logBeside(plan.out) }, async (log) => {
    const certificate = await certify(plan, root, request, { notBefore, notAfter })
    writeNewFile(plan.out, encodePem('CERTIFICATE', certificate.der), 0o644)
    log.step(`wrote ${plan.out}, read back and verified`, {
      subject: request.subjectText,
      'serial number': certificate.tbs.serialNumber.toString('hex'),
      'valid from': notBefore.toISOString(),
      'valid until': notAfter.toISOString(),
      'path length': String(plan.pathLength),
      ...(plan.constraints && {
        'permitted names': describeSubtrees(plan.constraints.permitted) || 'any',
        'excluded names': describeSubtrees(plan.constraints.excluded) || 'none',
      }),
      ...(plan.crlUrls.length > 0 && { 'CRL of the root': plan.crlUrls.join(', ') }),
      ...(plan.caIssuersUrls.length > 0 && { 'certificate of the root': plan.caIssuersUrls.join(', ') }),
      'SHA-256 fingerprint': fingerprintSha256(certificate.der),
    })
  })
}

/**
 * Checks the key before the signature: a hostile key could make verification expensive.
 * @throws Error in one sentence
 */
function readRequest(file: string): Csr {
  const [block, ...more] = readPem(file)
  if (block?.label !== 'CERTIFICATE REQUEST' || more.length > 0) throw new Error(`${file}: is not one request in PEM`)
  const request = parseCsr(block.der)
  const weakness = checkSubjectKey(request.spki, DEFAULT_SUBJECT_KEY_POLICY)
  if (weakness !== undefined) throw new Error(`${file}: ${weakness}`)
  if (!verifyCsrSignature(request)) throw new Error(`${file}: is not signed by the key it holds`)
  checkExactName(file, request)
  return request
}

/** The certificate copies the name, so it must be exact where requests may not be. */
function checkExactName(file: string, { subjectDer }: Csr): void {
  try {
    parseName(subjectDer)
  } catch (error) {
    throw error instanceof DerError ? new Error(`${file}: its name is no DER: ${error.message}`) : error
  }
}

function readPem(file: string): PemBlock[] {
  try {
    return decodePem(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw new Error(
      `${file}: ${cause instanceof PemError ? cause.message : `cannot be read: ${describeFileError(cause)}`}`,
      { cause },
    )
  }
}

/** RFC 5280 §4.2.1.9 and §6.1.4: clients reject a chain that breaks these rules. */
function checkFit(
  { pathLength, root, constraints }: SigningPlan,
  above: Certificate,
  request: Csr,
  notAfter: Date,
): void {
  const { tbs } = above
  if (request.subjectText === '') throw new Error('the request has no name for the CA')
  if (request.subjectDer.equals(tbs.subjectDer)) throw new Error('the request has the name of the root')
  if (request.spki.der.equals(tbs.spki.der)) throw new Error('the request holds the key of the root')
  if (tbs.pathLength !== undefined && pathLength >= tbs.pathLength) {
    throw new Error(`--path-length must be below that of ${root}, which is ${tbs.pathLength}`)
  }
  if (!admitsAnyName([...constraintsOf([above]), ...(constraints ? [constraints] : [])]))
    throw new Error(`the name constraints admit no name, with those of ${root}`)
  if (notAfter > tbs.notAfter) throw new Error(`--days goes beyond ${root}, which ends ${tbs.notAfter.toISOString()}`)
}

async function certify(
  plan: SigningPlan,
  { tbs: { spki, subjectDer, subjectKeyIdentifier } }: Certificate,
  request: Csr,
  validity: { notBefore: Date; notAfter: Date },
): Promise<Certificate> {
  const publicKey = createPublicKey({ key: spki.der, format: 'der', type: 'spki' })
  const algorithm = findAlgorithm(publicKey, plan.hash)
  const tbs = buildCaTbsCertificate({
    nameDer: request.subjectDer,
    spki: request.spki.der,
    pathLength: plan.pathLength,
    constraints: plan.constraints,
    crlUrls: plan.crlUrls,
    caIssuersUrls: plan.caIssuersUrls,
    issuerNameDer: subjectDer,
    authorityKeyIdentifier: subjectKeyIdentifier!,
    serialNumber: newSerialNumber(),
    signatureAlgorithm: algorithm,
    ...validity,
  })
  const signature = await signOnce(plan.key, { algorithm, spki: spki.der, onStateChange: () => {} }, tbs)
  const certificate = parseCertificate(assembleCertificate(tbs, algorithm, signature))
  if (verifyCertificateSignature(certificate, publicKey)) return certificate
  throw new Error(`the key is not that of ${plan.root}`)
}
