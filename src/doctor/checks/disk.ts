/** Room on the disks of this host. */

import { readdirSync, readlinkSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { hasSigner } from '../../config/backends.ts'
import { signerProgram } from '../../settings/signer-settings.ts'
import { describeFileError } from '../../shared/lib/errors.ts'
import { isLocalHost } from '../../shared/lib/host.ts'
import { type DiskFacts, diskOf, stateOf } from '../facts/files.ts'
import type { Check } from '../sources.ts'
import { AS_ROOT, CannotTell, failure, ok, unknown, unknownBecause, type Verdict, warning } from '../verdict.ts'

export const DISK: readonly Check[] = [
  {
    id: 'disk.signer',
    title: 'There is room for the audit chain and the records of the signer',
    look(sources) {
      const { config } = sources
      if (!hasSigner(config)) return undefined
      const isOwn = config.ca.signer.socket === null
      const folder = path.dirname(isOwn ? signerProgram(config).auditFile : sources.signerConfig().audit.file)
      if (stateOf(folder).problem === 'missing') throw new CannotTell(`${folder} is not on this host`)
      return look(folder, 'without room nothing is signed; it goes on by itself once there is some')
    },
  },
  {
    id: 'disk.archive',
    title: 'There is room for the archive of certificates',
    look: ({ config: { retention } }) =>
      retention.archive_dir === null
        ? undefined
        : look(retention.archive_dir, 'without room nothing is archived or deleted'),
  },
  {
    id: 'disk.log',
    title: 'There is room for the audit records of the log',
    look: ({ config: { logging } }) =>
      logging.audit.file === null ? undefined : lookForLog(path.dirname(path.resolve(logging.audit.file))),
  },
  {
    id: 'disk.database',
    title: 'There is room for the database, where it is on this host',
    async look(sources) {
      const database = await sources.database()
      if (!isLocalHost(database.host)) return undefined
      const folder = (await sources.read('settings')).find(({ name }) => name === 'data_directory')?.value
      if (folder === undefined)
        throw new CannotTell(
          'the role may not see the folder of PostgreSQL',
          'watch its disk otherwise, or GRANT pg_read_all_settings to the role of the service',
        )
      return [folder, ...otherDisksOf(folder)].map((place) =>
        typeof place === 'string' ? look(place, 'without room PostgreSQL stops or refuses what it writes') : place,
      )
    },
  },
  {
    id: 'disk.output',
    title: 'There is room for the file that is standard output of the service',
    look(sources) {
      const found = sources.process()
      const file = found && outputOf(found.pid)
      return file === undefined ? undefined : look(file, 'without room lines of the log are dropped and counted')
    },
  },
  {
    id: 'disk.temporary',
    title: 'There is room for temporary files',
    look: ({ config: { ca } }) =>
      ca.signer.socket === null
        ? look(tmpdir(), 'without room the signer that the service starts may not start')
        : undefined,
  },
]

/** The service makes no folder for its log. */
function lookForLog(folder: string): Verdict {
  const wait = 'records wait in the database, for four days'
  if (stateOf(folder).problem !== 'missing') return look(folder, `without room ${wait}`)
  return failure(
    `${folder} (logging.audit.file) is not there: ${wait}`,
    `install -d -o chancery -g chancery -m 750 ${folder}; then restart the service`,
  )
}

/** pg_wal and tablespaces may be links to other disks. */
export function otherDisksOf(folder: string): readonly (string | Verdict)[] {
  try {
    const spaces = readdirSync(path.join(folder, 'pg_tblspc')).map((name) => path.join('pg_tblspc', name))
    const places = [folder, ...['pg_wal', ...spaces].map((name) => path.join(folder, name))]
    const disks = places.map((place) => statSync(place).dev)
    return places.filter((_, at) => disks.indexOf(disks[at]!) === at).slice(1)
  } catch (error) {
    return [unknown(`pg_wal and tablespaces were not looked at: ${describeFileError(error)}`, AS_ROOT)]
  }
}

/** The result is undefined for a pipe, a terminal or the journal, and for the process of another user. */
function outputOf(pid: number): string | undefined {
  try {
    return statSync(`/proc/${pid}/fd/1`).isFile() ? readlinkSync(`/proc/${pid}/fd/1`) : undefined
  } catch {
    return undefined
  }
}

function look(folder: string, why: string): Verdict {
  try {
    return judgeDisk(diskOf(folder), why)
  } catch (error) {
    return unknownBecause(`${folder} cannot be looked at: ${describeFileError(error)}`, AS_ROOT)
  }
}

const MEBIBYTE = 2 ** 20
const [FAILURE_BYTES, WARNING_BYTES] = [100 * MEBIBYTE, 1024 * MEBIBYTE]
const WARNING_SHARE = 0.05
const WARNING_FILES = 0.02

export function judgeDisk({ folder, freeBytes, totalBytes, freeFiles }: DiskFacts, why: string): Verdict {
  const room = `${Math.round(freeBytes / MEBIBYTE)} MiB of ${Math.round(totalBytes / MEBIBYTE)} are free on the disk of ${folder}`
  const mend = `make room there, or mount a larger disk on ${folder}; du -x --max-depth=1 ${folder} shows what takes it`
  if (freeBytes < FAILURE_BYTES) return failure(`${room}: ${why}`, mend)
  if (freeBytes < WARNING_BYTES || freeBytes < totalBytes * WARNING_SHARE) return warning(`${room}: ${why}`, mend)
  if (freeFiles < WARNING_FILES)
    return warning(`nearly no more files can be made on the disk of ${folder}: ${why}`, mend)
  return ok(room)
}
