/**
 * `chancery certificates show --archive` and `certificates archive verify`. They read files; the database is asked only for
 * what no file that the manifest names has.
 */

import { parseSerialNumber } from '../../domain/revocation.ts'
import { findArchived, verifyArchive } from '../../services/archive/archive-reader.ts'
import { UsageError } from '../../shared/command-line.ts'
import { describeFileError } from '../../shared/lib/errors.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { createArchiveStore } from '../../store/archive-store.ts'
import { readConfigFile } from '../config-file.ts'
import { withDatabase } from '../operator-database.ts'
import { type Report, renderText, tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'

/** @param typed an id, or a serial number in hexadecimal */
export async function showArchived(folder: string, typed: string, json: boolean): Promise<number> {
  const key = isUuid(typed.toLowerCase()) ? typed.toLowerCase() : parseSerialNumber(typed)
  if (key === undefined) throw new UsageError(`${typed} is neither an id nor a serial number in hexadecimal`)
  const { certificate, file, faults } = await findArchived(folder, key).catch(unreadable(folder))
  const missing = faults.map((fault) => `not looked at: ${fault}`)
  if (!certificate) throw new CommandError([`${folder} has no certificate ${typed}`, ...missing].join('\n'))
  for (const line of missing) console.error(line)
  const { der, ...facts } = certificate
  const pem = der === '' ? [] : [encodePem('CERTIFICATE', Buffer.from(der, 'base64'))]
  tell(json, { file, ...certificate }, renderText({ file, ...facts } as Report), ...pem)
  return 0
}

/** @returns 1 when a file or a line of the manifest is not as it was written, or may be the only copy and is not named */
export async function verifyFolder(folder: string, { config: file, json }: Printing): Promise<number> {
  const stored = async (ids: string[]) =>
    withDatabase(await readConfigFile(file), (db) => createArchiveStore(db).stored(ids))
  const report = await verifyArchive(folder, stored).catch(unreadable(folder))
  const { files, certificates, bytes, head, faults, unnamed } = report
  const sum = `${files} files with ${certificates} certificates, ${bytes} bytes; the manifest ends with ${head}`
  const left = unnamed.map(({ file, certificates, only }) =>
    only > 0
      ? `${file}: not in the manifest, and ${only} of its ${certificates} certificates stand nowhere else: keep it`
      : `${file}: not in the manifest; its ${certificates} certificates stand elsewhere, and it may be removed`,
  )
  tell(json, report, sum, ...left, ...faults)
  return faults.length > 0 || unnamed.some(({ only }) => only > 0) ? 1 : 0
}

const unreadable = (folder: string) => (error: Error) => {
  const { path: file = folder } = error as NodeJS.ErrnoException
  throw new CommandError(`${file}: ${describeFileError(error)}`)
}
