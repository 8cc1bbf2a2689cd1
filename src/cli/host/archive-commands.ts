/** `chancery certificates show --archive` and `certificates archive verify`: they read files, and no database. */

import { parseSerialNumber } from '../../domain/revocation.ts'
import { findArchived, verifyArchive } from '../../services/archive-reader.ts'
import { UsageError } from '../../shared/command-line.ts'
import { describeFileError } from '../../shared/lib/file-error.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { type Report, renderText, tell } from '../printing.ts'
import { CommandError } from '../values.ts'

/** @param typed an id, or a serial number in hexadecimal */
export async function showArchived(folder: string, typed: string, json: boolean): Promise<number> {
  const key = isUuid(typed.toLowerCase()) ? typed.toLowerCase() : parseSerialNumber(typed)
  if (key === undefined) throw new UsageError(`${typed} is neither an id nor a serial number in hexadecimal`)
  const found = await findArchived(folder, key).catch(unreadable(folder))
  if (!found) throw new CommandError(`${folder} has no certificate ${typed}`)
  const { certificate, file } = found
  const { der, ...facts } = certificate
  const pem = der === '' ? [] : [encodePem('CERTIFICATE', Buffer.from(der, 'base64'))]
  tell(json, { file, ...certificate }, renderText({ file, ...facts } as Report), ...pem)
  return 0
}

/** @returns 1 when a file or a line of the manifest is not as it was written */
export async function verifyFolder(folder: string, json: boolean): Promise<number> {
  const report = await verifyArchive(folder).catch(unreadable(folder))
  const { files, certificates, bytes, head, faults, unnamed } = report
  const sum = `${files} files with ${certificates} certificates, ${bytes} bytes; the manifest ends with ${head}`
  const left = unnamed.map((name) => `${name}: not in the manifest; a crash leaves such a file, and it may be removed`)
  tell(json, report, sum, ...left, ...faults)
  return faults.length > 0 ? 1 : 0
}

const unreadable = (folder: string) => (error: Error) => {
  throw new CommandError(`${folder}: ${describeFileError(error)}`)
}
