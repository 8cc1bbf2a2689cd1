/** Certificates in files and folders: PEM, DER, and the folder of `openssl ca` or easy-rsa with its index. */

import { existsSync } from 'node:fs'
import { open, readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { parseSerialNumber, withoutSignOctet } from '../domain/revocation.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { fingerprintSha256, parseCertificate } from '../shared/pki/certificate.ts'
import { TAG } from '../shared/pki/der.ts'
import { decodePem, isPem } from '../shared/pki/pem.ts'
import { type ImportedCertificate, type Unreadable, UnusableSource } from './model.ts'

type Found = ImportedCertificate | Unreadable

const MOST_FILE_BYTES = 64 * 1024 * 1024
const MOST_FOLDERS_DEEP = 32

/** In a folder, files by these names are read; keys, requests and lists lie beside them. */
const CERTIFICATE_FILE = /\.(?:pem|crt|cer|der)$/i
const INDEX_FILE = 'index.txt'

/**
 * Certificates of all paths except CA certificates. Each comes once; a second time when only a later file has an index that
 * says it is revoked.
 */
export async function* readCertificateFiles(paths: readonly string[]): AsyncGenerator<Found> {
  /** Certificate → whether a revocation was found with it. */
  const given = new Map<string, boolean>()
  for (const one of paths) {
    const where = path.basename(one) === INDEX_FILE ? path.dirname(one) : one
    for await (const found of (await isFolder(where)) ? inFolder(where) : inNamedFile(where)) {
      const key = 'der' in found ? fingerprintSha256(found.der) : found.name
      const isRevoked = 'der' in found && found.revokedAt !== undefined
      if (!given.has(key) || (isRevoked && !given.get(key))) yield found
      given.set(key, isRevoked || given.get(key) === true)
    }
  }
}

async function isFolder(where: string): Promise<boolean> {
  try {
    return (await stat(where)).isDirectory()
  } catch (error) {
    throw new UnusableSource(`${where}: ${describeFileError(error)}`, { cause: error })
  }
}

/** An index counts for its folder and all below that have none of their own. */
async function* inFolder(folder: string, above?: CaIndex, depth = 0): AsyncGenerator<Found> {
  if (depth > MOST_FOLDERS_DEEP) {
    yield { name: folder, unreadable: `it is more than ${MOST_FOLDERS_DEEP} folders deep` }
    return
  }
  const file = path.join(folder, INDEX_FILE)
  const own = existsSync(file) ? await readIndex(file) : undefined
  for (const entry of (await readdir(folder, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const inner = path.join(folder, entry.name)
    if (entry.isDirectory()) yield* inFolder(inner, own ?? above, depth + 1)
    else if (CERTIFICATE_FILE.test(entry.name)) yield* inFile(inner, own ?? above)
  }
  yield* own?.missing() ?? []
}

/** A file that the operator names must hold something. Its index is in the same folder or the one above, where `openssl ca` has it. */
async function* inNamedFile(file: string): AsyncGenerator<Found> {
  let isEmpty = true
  const folder = path.dirname(path.resolve(file))
  const index = [folder, path.dirname(folder)].map((one) => path.join(one, INDEX_FILE)).find(existsSync)
  for await (const found of inFile(file, index === undefined ? undefined : await readIndex(index))) {
    isEmpty = false
    yield found
  }
  if (isEmpty) yield { name: file, unreadable: 'it holds no certificate but those of CAs' }
}

async function* inFile(file: string, index?: CaIndex): AsyncGenerator<Found> {
  let certificates: Buffer[]
  try {
    if ((await stat(file)).size > MOST_FILE_BYTES) throw new Error('it has more than 64 MB; split it')
    certificates = certificatesOf(await readFile(file))
  } catch (error) {
    yield { name: file, unreadable: describeFileError(error) }
    return
  }
  for (const [at, der] of certificates.entries()) {
    try {
      const { serialNumber, notAfter, isCa } = parseCertificate(der).tbs
      if (!isCa) yield { der, ...index?.find(withoutSignOctet(serialNumber).toString('hex'), notAfter) }
    } catch (error) {
      yield { name: `${file}, certificate ${at + 1}`, unreadable: `it is no certificate: ${(error as Error).message}` }
    }
  }
}

function certificatesOf(bytes: Buffer): Buffer[] {
  if (!isPem(bytes) && bytes[0] !== TAG.sequence)
    throw new Error('it is neither PEM, which has a line -----BEGIN CERTIFICATE-----, nor DER')
  if (!isPem(bytes)) return [bytes]
  return decodePem(bytes.toString('latin1')).flatMap(({ label, der }) => (label === 'CERTIFICATE' ? [der] : []))
}

/**
 * A line of the index of `openssl ca` and easy-rsa. It has status (V, R, E), end of validity, time and reason of
 * revocation, serial number, file and subject, with tabs between them.
 */
interface IndexEntry {
  /** The serial number in lower-case hexadecimal without leading zero octets. */
  serialNumber: string
  notAfter: Date
  revocation?: { revokedAt: Date; revocationReason: number } | undefined
}

interface CaIndex {
  /** The revocation of a certificate. The end tells it from a certificate of another CA with the same serial number. */
  find(serialNumber: string, notAfter: Date): IndexEntry['revocation']
  /** Certificates that the index names and nobody has asked for, and lines that are not as they should be. */
  missing(): Unreadable[]
}

async function readIndex(file: string): Promise<CaIndex> {
  const entries = new Map<string, IndexEntry>()
  const unreadable: Unreadable[] = []
  let number = 0
  for await (const line of (await open(file)).readLines()) {
    number++
    // An expired certificate was valid to its end, and its file may be gone.
    if (/^E\t|^\s*$/.test(line)) continue
    const entry = readIndexLine(line)
    // A line that says revoked counts, whatever a later line says.
    if (entry && !entries.get(entry.serialNumber)?.revocation) entries.set(entry.serialNumber, entry)
    else if (entry) continue
    else unreadable.push({ name: `${file}, line ${number}`, unreadable: 'no line of an index' })
  }
  const asked = new Set<string>()
  return {
    find(serialNumber, notAfter) {
      const entry = entries.get(serialNumber)
      if (entry?.notAfter.getTime() !== notAfter.getTime()) return undefined
      asked.add(serialNumber)
      return entry.revocation
    },
    missing: () => [
      ...unreadable,
      ...[...entries.values()]
        .filter(({ serialNumber, notAfter }) => !asked.has(serialNumber) && notAfter.getTime() > Date.now())
        .map(({ serialNumber }) => ({
          name: `certificate ${serialNumber}`,
          unreadable: `${file} names it, and no file below its folder has it`,
        })),
    ],
  }
}

/** The reasons in the spelling of `openssl ca -crl_reason`, in lower case. */
const REASONS: ReadonlyMap<string, number> = new Map([
  ['unspecified', 0],
  ['keycompromise', 1],
  // The time of the compromise stands behind it.
  ['keytime', 1],
  ['cacompromise', 2],
  ['cakeytime', 2],
  ['affiliationchanged', 3],
  ['superseded', 4],
  ['cessationofoperation', 5],
  ['certificatehold', 6],
  // An instruction stands behind it.
  ['holdinstruction', 6],
  ['removefromcrl', 8],
])

const LINE = /^([VR])\t(\d{12}|\d{14})Z\t([^\t]*)\t([0-9A-Fa-f]+)\t/

/** Reads a line; undefined where it is no line of an index. */
export function readIndexLine(line: string): IndexEntry | undefined {
  const [, status, end = '', revoked = '', serial = ''] = LINE.exec(line) ?? []
  const serialNumber = parseSerialNumber(serial)
  const notAfter = instantOf(end)
  if (serialNumber === undefined || !notAfter) return undefined
  if (status !== 'R') return { serialNumber, notAfter }
  const [time = '', reason = 'unspecified'] = revoked.split(',')
  // A revocation counts without a usable time or reason, too.
  const revokedAt = instantOf(time.replace(/Z$/, '')) ?? new Date()
  return { serialNumber, notAfter, revocation: { revokedAt, revocationReason: REASONS.get(reason.toLowerCase()) ?? 0 } }
}

/** Digits of UTCTime or GeneralizedTime (RFC 5280 §4.1.2.5: two digits from 50 on are of the last century). */
function instantOf(digits: string): Date | undefined {
  const full = digits.length === 12 ? `${Number(digits.slice(0, 2)) < 50 ? 20 : 19}${digits}` : digits
  const [, date, hour, minute, second] = /^(\d{8})(\d\d)(\d\d)(\d\d)$/.exec(full) ?? []
  if (date === undefined) return undefined
  const at = new Date(`${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}T${hour}:${minute}:${second}Z`)
  return Number.isNaN(at.getTime()) ? undefined : at
}
