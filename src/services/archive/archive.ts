/**
 * The archive of expired certificates. A round takes them in the order of their expiry:
 *
 *   1 read    pages of certificates with order, evidence and timestamps
 *   2 write   a file of at most 20,000, and its line in the manifest, both durable
 *   3 remove  their rows, page by page, each as it was read
 *
 * After a crash before 3 the next round archives these rows again. A certificate may then stand in two files, and the later
 * one counts. A revoked certificate stays until it has been on a list after its expiry (RFC 5280 §3.3).
 */

import {
  ARCHIVE_PAGE,
  ARCHIVE_WALK,
  type ArchivableCertificate,
  type ArchivePlace,
  type ArchiveStore,
  FIRST_PLACE,
  REMOVAL_PAGE,
} from '../../store/archive-store.ts'
import type { RetentionStore } from '../../store/retention-store.ts'
import { type Archive, type ArchiveFile, openArchive } from './archive-files.ts'

export interface ArchivePolicy {
  folder: string
  /** From its expiry. */
  certificateAgeMs: number
  /** Between two complete rounds. */
  pauseSeconds: number
}

export interface ArchiveOptions {
  store: ArchiveStore
  progress: Pick<RetentionStore, 'isDue' | 'finish' | 'now'>
  policy: ArchivePolicy
  /** A revoked certificate that expired before this is on no later list; undefined where that is not known. */
  leftLists(): Promise<Date | undefined>
  onArchived(file: ArchiveFile, head: string): void
  onRemoved(removed: number, seconds: number): void
  /** Asked between pages. */
  isStopping(): boolean
  rest(ms: number): Promise<void>
}

/** About 13 MB compressed; a crash has at most so many archived again. */
const FILE_CERTIFICATES = 20_000
/** Where lines are long. */
const FILE_CHARACTERS = 128 * 1024 * 1024
/** A round takes a quarter of a connection. */
const RESTS_FOR_A_PAGE = 3
const MAX_REST_MS = 250

/** One round. @returns how many certificates were removed; @throws file and database errors, after which nothing is lost */
export async function archiveExpired(options: ArchiveOptions): Promise<number> {
  const { progress, policy, isStopping } = options
  if (isStopping() || !(await progress.isDue(ARCHIVE_WALK, policy.pauseSeconds))) return 0
  const bounds = {
    expiredBefore: new Date((await progress.now()).getTime() - policy.certificateAgeMs),
    revokedBefore: await options.leftLists(),
  }
  const archive = await openArchive(policy.folder)
  let total = 0
  try {
    let place: ArchivePlace | undefined = FIRST_PLACE
    while (place && !isStopping()) {
      const batch = await writeFile(archive, place, bounds, options)
      total += await removeRows(batch.rows, options)
      place = batch.next
    }
  } finally {
    await archive.close()
  }
  if (!isStopping()) await progress.finish(ARCHIVE_WALK)
  return total
}

interface Bounds {
  expiredBefore: Date
  revokedBefore: Date | undefined
}

/** @returns the rows that now stand in a file, and where the next file begins, if there may be one */
async function writeFile(archive: Archive, from: ArchivePlace, bounds: Bounds, options: ArchiveOptions) {
  const rows: ArchivableCertificate[] = []
  let next: ArchivePlace | undefined = from

  async function* pages() {
    for (let characters = 0; next && rows.length < FILE_CERTIFICATES && characters < FILE_CHARACTERS; ) {
      const { page, ms } = await timed(options.store.read(next, bounds.expiredBefore, bounds.revokedBefore))
      const leaving = page.filter(({ line }) => line !== null)
      const text = leaving.map(({ line }) => `${line}\n`).join('')
      // The lines are written now, and need no memory until the rows are removed.
      rows.push(...leaving.map((row) => ({ ...row, line: null })))
      next = page.length === ARCHIVE_PAGE && !options.isStopping() ? page.at(-1) : undefined
      characters += text.length
      if (text !== '') yield text
      if (next) await options.rest(Math.min(MAX_REST_MS, RESTS_FOR_A_PAGE * ms))
    }
  }

  const file = await archive.add(pages(), () => ({
    certificates: rows.length,
    first_not_after: timeOf(rows[0]),
    last_not_after: timeOf(rows.at(-1)),
  }))
  if (file) options.onArchived(file, archive.head)
  return { rows, next }
}

/** Continues without rests when the service stops, so that the next round does not archive the same again. */
async function removeRows(rows: readonly ArchivableCertificate[], options: ArchiveOptions): Promise<number> {
  let total = 0
  for (let from = 0; from < rows.length; from += REMOVAL_PAGE) {
    const { page: removed, ms } = await timed(options.store.remove(rows.slice(from, from + REMOVAL_PAGE)))
    total += removed
    options.onRemoved(removed, ms / 1000)
    if (!options.isStopping()) await options.rest(Math.min(MAX_REST_MS, RESTS_FOR_A_PAGE * ms))
  }
  return total
}

const timeOf = (row: ArchivePlace | undefined) => (row ? new Date(row.notAfter).toISOString() : '')

async function timed<T>(work: Promise<T>): Promise<{ page: T; ms: number }> {
  const startedAt = performance.now()
  return { page: await work, ms: performance.now() - startedAt }
}
