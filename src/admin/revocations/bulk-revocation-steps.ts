/** Steps of a bulk revocation: counting what matches, noting it, and revoking a page of it. */

import type { CommonQueryMethods } from 'slonik'
import { KEY_COMPROMISE } from '../../domain/revocation.ts'
import { BULK_REVOCATION, statusAfter } from '../../domain/states.ts'
import { hashSpki } from '../../shared/pki/algorithms.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { revokeCertificates } from '../../store/certificate-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { notRight } from '../admin-errors.ts'
import type { Transaction } from '../audit/audit-log.ts'
import {
  ALREADY_REVOKED,
  beginPage,
  countMatching,
  nextTargets,
  noteFailures,
  noteMatching,
  type RevocationJob,
} from './bulk-revocation-store.ts'
import { FIRST_ID, nextWindow, type RevocationFilter } from './revocation-filter.ts'

interface DryRun {
  /** Matching certificates that are not revoked. */
  wouldRevoke: number
  /** Matching certificates that are revoked already. */
  alreadyRevoked: number
  /** The first that would be revoked. */
  serialNumbers: string[]
}

const SAMPLES = 100

/** @param rule continues `'confirm_count' must be` */
export const wrongCount = (rule: string) => notRight('body', [{ field: 'confirm_count', message: `must be ${rule}` }])

/** Counts what the filter matches now, and changes nothing. */
export async function dryRun(db: CommonQueryMethods, filter: RevocationFilter): Promise<DryRun> {
  const until = new Date()
  const found: DryRun = { wouldRevoke: 0, alreadyRevoked: 0, serialNumbers: [] }
  let afterId = FIRST_ID
  for (;;) {
    const window = await nextWindow(db, filter, afterId)
    const samples = SAMPLES - found.serialNumbers.length
    const counted = await countMatching(db, filter, { window, until, samples })
    found.wouldRevoke += counted.unrevoked
    found.alreadyRevoked += counted.revoked
    found.serialNumbers.push(...counted.serial_numbers)
    if (window.endId === undefined) return found
    afterId = window.endId
  }
}

const LISTED = statusAfter(BULK_REVOCATION, 'listed')
const OVERRUN = statusAfter(BULK_REVOCATION, 'overrun')
const FINISHED = statusAfter(BULK_REVOCATION, 'finish')

/** Notes the certificates of the next window as the job's. */
export async function match(tx: Transaction, job: RevocationJob): Promise<RevocationJob> {
  const window = await nextWindow(tx, job.filter, job.after_id)
  const noted = await noteMatching(tx, job, window)
  const [total_matched, failed] = [job.total_matched + noted.matched, job.failed + noted.revoked]
  // Between the count that was confirmed and this one, more may have been issued or recorded.
  if (job.at_most !== null && total_matched - failed > job.at_most)
    return { ...job, total_matched, failed, status: OVERRUN }
  if (window.endId !== undefined) return { ...job, total_matched, failed, after_id: window.endId }
  return { ...job, total_matched, failed, after_id: FIRST_ID, status: LISTED }
}

/** About 50 ms; with the pause behind it, some thousand certificates a second. */
const PAGE = 500
const UNREADABLE =
  'not revoked: the stored certificate cannot be read, and keyCompromise blocks the key in it; another reason revokes it'

/** A row that cannot be read must not hold up the others. */
function keyOf(der: Buffer): Buffer | 'unreadable' {
  try {
    return hashSpki(parseCertificate(der).tbs.spki)
  } catch {
    return 'unreadable'
  }
}

/** Revokes the next certificates of the job. */
export async function revokePage(
  tx: Transaction,
  job: RevocationJob,
): Promise<{ next: RevocationJob; revoked: string[] }> {
  await beginPage(tx)
  const withDer = job.reason === KEY_COMPROMISE
  const targets = await nextTargets(tx, job, { limit: PAGE, withDer })
  const unreadable = new Set<string>()
  const certificates = targets.flatMap(({ id: certificateId, der }) => {
    const blockedKey = der?.length ? keyOf(der) : undefined
    if (blockedKey !== 'unreadable') return [{ certificateId, blockedKey }]
    unreadable.add(certificateId)
    return []
  })
  const revoked = await revokeCertificates(queriesOf(tx), certificates, job.reason)
  const isRevoked = new Set(revoked)
  const failures = targets.filter(({ id }) => !isRevoked.has(id))
  const whyOf = ({ id, is_stored }: (typeof targets)[number]) => {
    if (unreadable.has(id)) return UNREADABLE
    return is_stored ? ALREADY_REVOKED : 'no longer stored'
  }
  await noteFailures(
    tx,
    job.id,
    failures.map((target) => ({ id: target.id, why: whyOf(target) })),
  )
  const next = {
    ...job,
    after_id: targets.at(-1)?.id ?? job.after_id,
    revoked: job.revoked + revoked.length,
    failed: job.failed + failures.length,
    status: targets.length < PAGE ? FINISHED : job.status,
  }
  return { next, revoked }
}
