/** Reads the archive of expired certificates: one of them, or all files against the manifest. Neither holds a file in memory. */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
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
 * The newest record of a certificate, and its file.
 * @param key id, or serial number in lower-case hexadecimal without leading zero octets
 * @throws Error for a folder without a manifest, and for a broken file
 */
export async function findArchived(folder: string, key: string) {
  const files = []
  for await (const { file } of entriesOf(folder)) files.push(file)
  for (const file of files.toReversed()) {
    let found: ArchivedCertificate | undefined
    for await (const line of certificateLines(folder, file)) {
      // Most lines are passed over without being parsed.
      if (!line.includes(key)) continue
      const certificate = JSON.parse(line) as ArchivedCertificate
      if (certificate.id === key || certificate.serial_number === key) found = certificate
    }
    if (found) return { file, certificate: found }
  }
  return undefined
}

export interface ArchiveReport {
  files: number
  certificates: number
  bytes: number
  /** SHA-256 of the manifest's last line. */
  head: string
  /** One sentence for each file or line that is not as it was written. */
  faults: string[]
  /** Files that the manifest does not name; a crash leaves one. */
  unnamed: string[]
}

/** More are not listed. */
const MOST_FAULTS = 100

/** @throws Error for a folder without a manifest */
export async function verifyArchive(folder: string): Promise<ArchiveReport> {
  const named = new Set<string>()
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
    report.certificates += entry.certificates
    report.bytes += entry.bytes
  }
  report.unnamed = (await filesIn(folder)).filter((name) => !named.has(name))
  return report
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
    return (error as Error).message
  }
}

async function* entriesOf(folder: string): AsyncGenerator<ArchiveFile & { line: string }> {
  for await (const line of manifestLines(folder)) yield { ...readEntry(line), line }
}

const NOTHING: ArchiveFile = {
  file: '',
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
