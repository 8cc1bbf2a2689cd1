/** Begins an incident: block, advice, job, mails and the row that joins them are one transaction. */

import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { advisedWindow } from '../../domain/renewal-window.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import type { Transaction } from '../audit/audit-log.ts'
import type { AdminContext } from '../context.ts'
import { audienceOf, recordMails } from '../owner-mails.ts'
import { insertBlock } from '../revocations/blocked-key-endpoints.ts'
import { wrongCount } from '../revocations/bulk-revocation-steps.ts'
import { recordJob } from '../revocations/bulk-revocations.ts'
import { FIRST_ID, nextWindow, type RevocationFilter } from '../revocations/revocation-filter.ts'
import {
  type Actions,
  adviseWindow,
  findHits,
  type Incident,
  insertIncident,
  lockSameIncident,
} from './incident-store.ts'

interface WantedIncident {
  filter: RevocationFilter
  actions: Actions
  /** Unrevoked certificates that the administrator has seen. */
  confirmCount: number
  /** A sentence for the owners. */
  remark: string
  /** The most certificates that another person has approved to revoke. */
  approved: number | undefined
}

type Means = Pick<AdminContext, 'db' | 'audit' | 'bulkRevocations' | 'mail'>

/**
 * @throws AdminError invalid_request with the number that would have to be confirmed; conflict when the same incident
 *   has just been begun, or owners cannot be told
 */
export async function beginIncident(
  { db, audit, bulkRevocations, mail }: Means,
  author: Actor,
  { filter, actions, confirmCount, remark, approved }: WantedIncident,
): Promise<Incident> {
  const hits = await findHits(db, filter)
  if (approved === undefined) requireConfirmed(hits.unrevoked, confirmCount)
  else if (hits.unrevoked > approved)
    throw new AdminError('conflict', `it concerns ${hits.unrevoked} certificates now; ${approved} were approved`)
  const incident = await audit.transaction(author, async (tx, note) => {
    const same = await lockSameIncident(tx, filter)
    if (same !== undefined) throw new AdminError('conflict', `this incident was begun already: ${same}`)
    const { spki_sha256 } = filter
    if (actions.block_key && spki_sha256 !== undefined && (await insertBlock(tx, spki_sha256)))
      note('key.block', { spki_sha256 })
    const advised = actions.advise_renewal ? await advise(tx, filter) : null
    if (advised) note('renewal.advise', { filter, certificates: advised })
    const { reason } = actions
    const job =
      actions.revoke && hits.unrevoked > 0
        ? await recordJob(tx, note, { author, filter, reason, at_most: approved ?? confirmCount })
        : undefined
    const notifications = actions.tell_owners ? await recordMails(tx, mail, { hits, actions, remark }) : []
    const begun = await insertIncident(tx, {
      id: uuidv7(Date.now()),
      filter,
      actions,
      certificates: hits.unrevoked,
      issuers: hits.issuers,
      job_id: job?.id ?? null,
      advised,
      notifications,
      without_contact: audienceOf(hits).withoutContact,
      created_by: author.operator ?? author.username,
    })
    note('incident.begin', {
      incident_id: begun.id,
      filter,
      ...actions,
      reason: revocationReasonName(reason),
      certificates: hits.unrevoked,
      mails: notifications.length,
      job_id: job?.id,
    })
    return begun
  })
  if (incident.job_id !== null) bulkRevocations.take(incident.job_id)
  return incident
}

function requireConfirmed(unrevoked: number, confirmed: number): void {
  if (unrevoked === confirmed) return
  throw wrongCount(`${unrevoked}, the number of unrevoked certificates that it concerns now`)
}

/** @returns how many certificates */
async function advise(tx: Transaction, filter: RevocationFilter): Promise<number> {
  const now = new Date()
  const { start, end } = advisedWindow(now, undefined)
  let advised = 0
  for (let afterId = FIRST_ID; ; ) {
    const window = await nextWindow(tx, filter, afterId)
    advised += await adviseWindow(tx, filter, { window, until: now, start, end })
    if (window.endId === undefined) return advised
    afterId = window.endId
  }
}
