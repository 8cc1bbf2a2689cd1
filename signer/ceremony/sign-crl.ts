/**
 * `chancery-signer sign-crl`: a root key, in a file or a token, signs a list of the CA certificates that the root has
 * revoked (RFC 5280 §5).
 *
 * A list follows the one before: it has all of its entries and the next number. So a revocation cannot be forgotten.
 */

import { createPublicKey } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { describeFileError } from '../../src/shared/lib/errors.ts'
import { readAlgorithmIdentifier, type SignatureAlgorithm, verifySignature } from '../../src/shared/pki/algorithms.ts'
import { type Certificate, fingerprintSha256, serialNumberHex } from '../../src/shared/pki/certificate.ts'
import { isIssuedBy } from '../../src/shared/pki/certification-path.ts'
import { CRL_REASONS, lintCrlEntry, lintCrlExtensions, lintCrlHeader } from '../../src/shared/pki/crl-lint.ts'
import { DerError, readSingle, TAG } from '../../src/shared/pki/der.ts'
import { decodePem, isPem } from '../../src/shared/pki/pem.ts'
import {
  type CrlEntry,
  encodeCrlEntries,
  frameCertificateList,
  frameTbsCertList,
} from '../../src/shared/pki/tbs-cert-list.ts'
import {
  type CrlExtensions,
  type CrlHeader,
  type ReadCrlEntry,
  TbsCertListReader,
} from '../../src/shared/pki/tbs-cert-list-reader.ts'
import { checkIssuerCertificate, findAlgorithm, readCertificates } from '../issuers.ts'
import { DAY_MS } from './keygen.ts'
import { logged } from './log.ts'
import { writeNewFile } from './new-key.ts'
import { logBeside, type RootPlan, signOnce } from './sign-request.ts'

interface SignedList {
  header: CrlHeader
  extensions: CrlExtensions
  number: bigint
  found: readonly ReadCrlEntry[]
  entries: readonly CrlEntry[]
}

/** @throws DerError for what is no CRL of this issuer, or has entries that a list of ours cannot repeat */
function readList(der: Buffer, { tbs: issuer }: Certificate): SignedList {
  const outer = readSingle(der, TAG.sequence, 'CertificateList')
  const tbs = outer.any()
  const { algorithm } = readAlgorithmIdentifier(outer)
  const signature = outer.bitStringOctets()
  outer.finish('CertificateList')

  let header: CrlHeader | undefined
  const found: ReadCrlEntry[] = []
  const reader = new TbsCertListReader({
    header: (read) => {
      header = read
    },
    entry: (entry) => found.push({ ...entry, serialNumber: Buffer.from(entry.serialNumber) }),
  })
  reader.push(tbs)
  const extensions = reader.finish()
  if (!header?.issuerDer.equals(issuer.subjectDer)) throw new DerError('it is of another issuer', 0)
  if (!verifySignature(algorithm, tbs, issuer.spki, signature)) throw new DerError('its signature does not verify', 0)
  if (!extensions.number) throw new DerError('it has no number', 0)
  return {
    header,
    extensions,
    number: BigInt(`0x${extensions.number.toString('hex')}`),
    found,
    entries: found.map(entryOf),
  }
}

function entryOf({ serialNumber, revokedAt, reason, otherExtensions }: ReadCrlEntry): CrlEntry {
  const hex = serialNumberHex(serialNumber)
  if (otherExtensions.length > 0) throw new DerError(`the entry of ${hex} has an extension ${otherExtensions[0]}`, 0)
  return { serialNumber: Buffer.from(hex, 'hex'), revokedAt: revokedAt.at, reason: reason ?? 0 }
}

/** The next list comes after `days`, and `out` will hold the DER of this one. */
export interface CrlPlan extends RootPlan {
  /** Undefined takes the next number after `previous`. */
  number: bigint | undefined
  /** The list before this one; undefined for the first. */
  previous: string | undefined
  revoked: readonly Revoked[]
}

/** A certificate file, or a serial number in hexadecimal. */
export interface Revoked {
  which: string
  reason: number
}

/** @param show gets every line of the log as it is written. @throws Error in one sentence */
export async function signCrl(plan: CrlPlan, show: (line: string) => void): Promise<void> {
  if (existsSync(plan.out)) throw new Error(`${plan.out}: exists already`)
  const root = readCertificates(plan.root)[0]!
  checkIssuerCertificate(plan.root, root)
  const { keyUsages } = root.tbs
  if (keyUsages.length > 0 && !keyUsages.includes('crl_sign'))
    throw new Error(`${plan.root}: its key usage does not allow signing CRLs`)
  const previous = plan.previous === undefined ? undefined : readPrevious(plan.previous, root)
  const number = nextNumber(plan, previous)
  const now = new Date(Math.floor(Date.now() / 1000) * 1000)
  const entries = mergeEntries(previous?.entries ?? [], plan.revoked, root, now)

  const facts = {
    program: plan.program,
    'Node.js': process.version,
    'SHA-256 fingerprint of the root': fingerprintSha256(root.der),
    ...(plan.previous !== undefined && { 'follows the list': plan.previous }),
  }
  await logged('signing of a CRL', facts, { show, file: logBeside(plan.out) }, async (log) => {
    const nextUpdate = new Date(now.getTime() + plan.days * DAY_MS)
    const list = await makeList(plan, root, { number, entries, thisUpdate: now, nextUpdate })
    writeNewFile(plan.out, list, 0o644)
    log.step(`wrote ${plan.out}, read back and verified`, {
      number: String(number),
      'this update': now.toISOString(),
      'next update': nextUpdate.toISOString(),
      entries: String(entries.length),
      ...Object.fromEntries(entries.map((entry) => [`revoked ${hexOf(entry)}`, describeEntry(entry)])),
    })
  })
}

const hexOf = ({ serialNumber }: CrlEntry): string => serialNumber.toString('hex')
const describeEntry = ({ revokedAt, reason }: CrlEntry): string => `${revokedAt.toISOString()}, ${CRL_REASONS[reason]}`

function readPrevious(file: string, root: Certificate): SignedList {
  try {
    return readList(readDer(file), root)
  } catch (cause) {
    const reason = cause instanceof DerError ? `cannot be read as a CRL: ${cause.message}` : describeFileError(cause)
    throw new Error(`${file}: ${reason}`, { cause })
  }
}

/** DER, or PEM as other programs write it. */
function readDer(file: string): Buffer {
  const bytes = readFileSync(file)
  const [block] = isPem(bytes) ? decodePem(bytes.toString('utf8')) : []
  return block?.der ?? bytes
}

/** RFC 5280 §5.2.3: numbers rise. */
function nextNumber({ number }: CrlPlan, previous: SignedList | undefined): bigint {
  if (number === undefined && !previous)
    throw new Error('say which list this one follows: --previous FILE, or --number 1 for the first list of a root')
  if (number === undefined) return (previous?.number ?? 0n) + 1n
  if (previous && number <= previous.number)
    throw new Error(`--number must be above that of the list before, which is ${previous.number}`)
  return number
}

function mergeEntries(
  before: readonly CrlEntry[],
  revoked: readonly Revoked[],
  root: Certificate,
  now: Date,
): CrlEntry[] {
  const entries = [...before]
  for (const { which, reason } of revoked) {
    const serialNumber = serialNumberOf(which, root)
    if (entries.some((entry) => entry.serialNumber.equals(serialNumber)))
      throw new Error(`--revoke ${which}: serial number ${serialNumber.toString('hex')} is on the list already`)
    entries.push({ serialNumber, revokedAt: now, reason })
  }
  return entries
}

/** @returns the magnitude, without a sign octet */
function serialNumberOf(which: string, root: Certificate): Buffer {
  if (!existsSync(which)) {
    const hex = which.replaceAll(':', '').replace(/^(?:00)+/, '')
    if (!/^(?:[0-9a-f]{2}){1,20}$/i.test(hex))
      throw new Error(`--revoke ${which}: is neither a certificate file nor a serial number in hexadecimal`)
    return Buffer.from(hex, 'hex')
  }
  const certificate = readCertificates(which)[0]!
  if (!isIssuedBy(certificate, root)) throw new Error(`--revoke ${which}: was not issued by the root`)
  return Buffer.from(serialNumberHex(certificate.tbs.serialNumber), 'hex')
}

interface ListContent {
  number: bigint
  entries: readonly CrlEntry[]
  thisUpdate: Date
  nextUpdate: Date
}

/** @returns DER of the CertificateList, read back and verified */
async function makeList(plan: CrlPlan, root: Certificate, content: ListContent): Promise<Buffer> {
  const { spki, subjectDer, subjectKeyIdentifier } = root.tbs
  const algorithm = findAlgorithm(createPublicKey({ key: spki.der, format: 'der', type: 'spki' }), plan.hash)
  const entries = encodeCrlEntries(content.entries)
  const { prefix, suffix } = frameTbsCertList(
    {
      signatureAlgorithm: algorithm,
      issuerNameDer: subjectDer,
      authorityKeyIdentifier: subjectKeyIdentifier!,
      thisUpdate: content.thisUpdate,
      nextUpdate: content.nextUpdate,
      number: content.number,
    },
    entries.length,
  )
  const tbs = Buffer.concat([prefix, entries, suffix])
  const signature = await signOnce(plan.key, { algorithm, spki: spki.der, onStateChange: () => {} }, tbs)
  const list = assembleList(tbs, algorithm, signature)
  const read = readList(list, root)
  const finding =
    lintCrlHeader(read.header) ??
    lintCrlExtensions(read.extensions) ??
    read.found.map((entry) => lintCrlEntry(entry, content.thisUpdate)).find((one) => one !== undefined)
  if (finding !== undefined) throw new Error(`the list would not be well-formed: ${finding}`)
  return list
}

function assembleList(tbs: Buffer, algorithm: SignatureAlgorithm, signature: Buffer): Buffer {
  const { prefix, suffix } = frameCertificateList(tbs.length, algorithm, signature)
  return Buffer.concat([prefix, tbs, suffix])
}
