/** `chancery certificates bulk-revoke`: begins a job that revokes what filters match, and waits for its end. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Input, Output } from '../../admin/client.ts'
import { REVOCATION_FILTERS } from '../../admin/resources/certificates.ts'
import { isGiven, optional } from '../../shared/command-line.ts'
import { printReply } from '../printing.ts'
import { flag, whole } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { adminCommand } from './admin-command.ts'
import { byOptionName, givenOf, optionsOf } from './filter-options.ts'
import { BODY } from './operation-command.ts'

const whole32 = whole(0, 2 ** 31 - 1, 'takes a whole number')

export const BULK_REVOKE = adminCommand({
  usage: 'certificates bulk-revoke',
  approval: true,
  about: 'Revoke all unexpired certificates that filters match, and show the progress',
  options: {
    ...byOptionName(optionsOf(REVOCATION_FILTERS)),
    reason: optional('CRLReason: 0, 1, 2, 3, 4, 5 or 9; 1, keyCompromise, also blocks the keys', whole32),
    'dry-run': isGiven('Count the certificates and change nothing'),
    'confirm-count': optional(
      'Revoke no more certificates than this; needed above admin_api.bulk_revoke_confirm_above',
      whole32,
    ),
    wait: optional('false: do not wait until the job has ended', flag),
    ...BODY,
  },
  async run(caller, { reason, 'dry-run': isDryRun, 'confirm-count': confirm_count, wait, body, json, ...given }) {
    const whole = (body ?? {}) as Partial<NonNullable<Input<'bulkRevoke'>['body']>>
    const sent = {
      ...whole,
      ...present({ reason, dry_run: isDryRun || undefined, confirm_count, wait }),
      filter: { ...whole.filter, ...givenOf(REVOCATION_FILTERS, given) },
    }
    const first = await caller.call('bulkRevoke', { body: sent })
    const isAwaited = sent.wait !== false
    const last = isAwaited && 'id' in first ? await theEndOf(caller, first) : first
    if (json) console.log(JSON.stringify(last, null, 2))
    else printReply(last)
    return isAwaited && 'status' in last && last.status !== 'done' ? 1 : 0
  },
})

/** The members that were given; an absent one leaves the member of `--body`. */
const present = <T extends object>(members: T) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>

const LOOK_MS = 1_000

/** The job outlives this command. */
async function theEndOf(caller: AdminCaller, first: Output<'getBulkRevocation'>): Promise<Output<'getBulkRevocation'>> {
  let job = first
  while (job.finished_at === null) {
    const progress = `${job.revoked} of ${job.total_matched}`
    process.stderr.write(`${job.status}: ${progress}; the job continues when this command ends\n`)
    await sleep(LOOK_MS)
    job = await caller.call('getBulkRevocation', { params: { job_id: job.id } })
  }
  return job
}
