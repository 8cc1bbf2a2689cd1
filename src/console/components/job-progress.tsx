/** How far a bulk revocation is: its bar, its status, how fast it goes, and what it is stuck at. */

import type { Output } from '../api.ts'
import { countText, plural } from '../format.ts'
import { useJobRate } from '../job-rate.ts'
import { Badge } from './basics.tsx'

type Job = Pick<
  Output<'getBulkRevocation'>,
  'status' | 'total_matched' | 'revoked' | 'errors_total' | 'obstacle' | 'finished_at'
>

const STATUSES = {
  matching: 'Searching',
  revoking: 'Revoking',
  done: 'Done',
  refused: 'Refused: more match than were confirmed',
  cancelled: 'Cancelled',
}

export function JobStatus({ status, finished_at }: Pick<Job, 'status' | 'finished_at'>) {
  const tone = status === 'done' ? 'good' : finished_at ? 'plain' : 'warn'
  return <Badge tone={tone}>{STATUSES[status]}</Badge>
}

/** @param at when the job was read, in milliseconds */
export function JobProgress({ job, at }: { job: Job; at: number | undefined }) {
  const rate = useJobRate(job, at)
  const { status, total_matched, revoked, errors_total, obstacle } = job
  const most = Math.max(1, total_matched)
  const done = revoked + errors_total
  return (
    <>
      <progress max={most} value={status === 'done' ? most : done} aria-label="Progress of the revocation" />
      <p role="status">
        <JobStatus {...job} />{' '}
        {status === 'matching'
          ? `${plural(countText(total_matched), 'certificate')} found so far`
          : `${countText(done)} of ${countText(total_matched)}`}
        {rate !== undefined && `, ${rate}`}
      </p>
      {obstacle !== null && (
        <p class="bar bad" role="alert">
          It is stuck, and will be retried: {obstacle}
        </p>
      )}
    </>
  )
}
