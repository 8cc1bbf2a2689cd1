/** Reads the archive of expired certificates: one of them, or all files against the manifest. Neither holds a file in memory. */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { describeFileError } from '../../shared/lib/errors.ts'
import {
  type ArchiveFile,
  certificateLines,
  filesIn,
  hashOfLine,
  MANIFEST,
  manifestLines,
  NO_PREVIOUS,
} from './archive-files.ts'

/** A certificate as the archive has it; `order`, `authorizations` and `timestamps` may be null. */
export interface ArchivedCertificate {
  id: string
  serial_number: string
  not_after: string
  /** In base64; empty for a revoked serial number whose certificate is not known. */
  der: string
  [member: string]: unknown
}

/**
 * The newest record of a certificate, and its file; `faults` has a sentence for each newer file that cannot be read.
 * Files that the manifest does not name come last.
 * @param key id, or serial number in lower-case hexadecimal without leading zero octets
 * @throws Error for a folder without a manifest
 */
export async function findArchived(
  folder: string,
  key: string,
): Promise<{ file?: string; certificate?: ArchivedCertificate; faults: string[] }> {
  const files: string[] = []
  for await (const { file } of entriesOf(folder)) files.push(file)
  const unnamed = (await filesIn(folder)).filter((name) => !files.includes(name))
  const faults: string[] = []
  for (const file of [...unnamed, ...files].toReversed()) {
    try {
      const certificate = await findIn(folder, file, key)
      if (certificate) return { file, certificate, faults }
    } catch (error) {
      faults.push(`${file}: ${describeFileError(error)}`)
    }
  }
  return { faults }
}

async function findIn(folder: string, file: string, key: string): Promise<ArchivedCertificate | undefined> {
  let found: ArchivedCertificate | undefined
  for await (const line of certificateLines(folder, file)) {
    // Most lines are passed over without being parsed.
    if (!line.includes(key)) continue
    const certificate = JSON.parse(line) as ArchivedCertificate
    if (certificate.id === key || certificate.serial_number === key) found = certificate
  }
  return found
}

/** A file that the manifest does not name: a crash leaves one, and so do folders of several instances that were put together. */
interface UnnamedFile {
  file: string
  certificates: number
  /** The number of them in no file that is as the manifest has it, nor in the database. */
  only: number
}

export interface ArchiveReport {
  files: number
  certificates: number
  bytes: number
  /** SHA-256 of the manifest's last line. */
  head: string
  /** One sentence for each file or line that is not as it was written. */
  faults: string[]
  unnamed: UnnamedFile[]
}

/** More are not listed. */
const MOST_FAULTS = 100

/**
 * @param stored of these ids, those that the database has
 * @throws Error for a folder without a manifest
 */
export async function verifyArchive(
  folder: string,
  stored: (ids: string[]) => Promise<string[]> = async () => [],
): Promise<ArchiveReport> {
  const named = new Set<string>()
  const sound = new Set<string>()
  const report: ArchiveReport = { files: 0, certificates: 0, bytes: 0, head: NO_PREVIOUS, faults: [], unnamed: [] }
  const fault = (sentence: string) => {
    if (report.faults.length < MOST_FAULTS) report.faults.push(sentence)
  }
  for await (const { line, previous, ...entry } of entriesOf(folder)) {
    named.add(entry.file)
    report.files += 1
    if (previous !== report.head) fault(`${MANIFEST}: line ${report.files} does not follow the line before`)
    report.head = hashOfLine(line)
    const wrong = await faultOf(folder, entry)
    if (wrong) fault(`${entry.file}: ${wrong}`)
    else sound.add(entry.file)
    report.certificates += entry.certificates
    report.bytes += entry.bytes
  }
  for (const file of await filesIn(folder)) {
    if (named.has(file)) continue
    try {
      report.unnamed.push(await compare(folder, file, sound, stored))
    } catch (error) {
      fault(`${file}: not in the manifest, and not compared: ${describeFileError(error)}`)
    }
  }
  // A service may have named some while their neighbours were read: it removes their rows next.
  for await (const { file } of entriesOf(folder)) named.add(file)
  report.unnamed = report.unnamed.filter(({ file }) => !named.has(file))
  return report
}

/** @throws errors of the file and of the database */
async function compare(
  folder: string,
  file: string,
  sound: ReadonlySet<string>,
  stored: (ids: string[]) => Promise<string[]>,
): Promise<UnnamedFile> {
  const idsIn = async function* (name: string) {
    for await (const line of certificateLines(folder, name)) yield (JSON.parse(line) as ArchivedCertificate).id
  }
  const only = new Set<string>()
  for await (const id of idsIn(file)) only.add(id)
  const certificates = only.size
  for (const id of await stored([...only])) only.delete(id)
  for (const other of only.size > 0 ? sound : [])
    try {
      for await (const id of idsIn(other)) only.delete(id)
    } catch {
      // It has gone since, and keeps nothing safe.
    }
  return { file, certificates, only: only.size }
}

async function faultOf(folder: string, entry: Omit<ArchiveFile, 'previous'>): Promise<string | undefined> {
  const sum = createHash('sha256')
  try {
    await pipeline(createReadStream(path.join(folder, entry.file)), sum)
    if (sum.digest('hex') !== entry.sha256) return 'is not as the manifest has it'
    let certificates = 0
    for await (const _ of certificateLines(folder, entry.file)) certificates += 1
    if (certificates !== entry.certificates) return `has ${certificates} certificates instead of ${entry.certificates}`
    return undefined
  } catch (error) {
    return describeFileError(error)
  }
}

async function* entriesOf(folder: string): AsyncGenerator<ArchiveFile & { line: string }> {
  for await (const line of manifestLines(folder)) yield { ...readEntry(line), line }
}

const NOTHING: ArchiveFile = {
  file: '(a line that is none)',
  certificates: 0,
  first_not_after: '',
  last_not_after: '',
  bytes: 0,
  sha256: '',
  written_at: '',
  previous: '',
}

/** A line that is no entry counts as one whose file is missing. */
function readEntry(line: string): ArchiveFile {
  try {
    const entry = { ...NOTHING, ...(JSON.parse(line) as Partial<ArchiveFile>) }
    return { ...entry, file: path.basename(String(entry.file)) }
  } catch {
    return NOTHING
  }
}
