/** The progress of a bulk revocation: bar, status, rate, errors, and the certificates that are left. */

import { useRef } from 'preact/hooks'
import type { Output } from '../api.ts'
import { counted, countText, spanText } from '../format.ts'
import { href } from '../router.ts'
import { useApi } from '../use-api.ts'
import { Badge, ButtonLink, Problem, Time } from './basics.tsx'

type Job = Pick<
  Output<'getBulkRevocation'>,
  'id' | 'status' | 'total_matched' | 'revoked' | 'errors_total' | 'left' | 'obstacle' | 'finished_at'
>

const STATUSES = {
  matching: 'Searching',
  revoking: 'Revoking',
  done: 'Done',
  refused: 'Refused: more match than were confirmed',
  cancelled: 'Cancelled',
}

/** Green only when no certificate is left. A list does not know that number and leaves it out. */
export function JobStatus({
  status,
  finished_at,
  errors_total,
  left = errors_total === 0 ? 0 : null,
}: Pick<Job, 'status' | 'finished_at' | 'errors_total'> & Partial<Pick<Job, 'left'>>) {
  if (!finished_at) return <Badge tone="warn">{STATUSES[status]}</Badge>
  if (left) return <Badge tone="bad">{status === 'done' ? 'Ended, not all revoked' : STATUSES[status]}</Badge>
  return <Badge tone={status === 'done' && left === 0 ? 'good' : 'plain'}>{STATUSES[status]}</Badge>
}

/** @param at when the job was read, in milliseconds */
export function JobProgress({ job, at }: { job: Job; at: number | undefined }) {
  const rate = useJobRate(job, at)
  const { id, status, total_matched, revoked, errors_total, left, obstacle } = job
  const most = Math.max(1, total_matched)
  const done = revoked + errors_total
  return (
    <>
      <progress
        class={left ? 'bad' : undefined}
        max={most}
        value={status === 'done' ? most : done}
        aria-label="Progress of the revocation"
      />
      <p role="status">
        <JobStatus {...job} />{' '}
        {status === 'matching'
          ? `${counted(total_matched, 'certificate')} found so far`
          : `${countText(done)} of ${countText(total_matched)}`}
        {rate !== undefined && `, ${rate}`}
      </p>
      {left !== null && left > 0 && <Left id={id} left={left} total={total_matched} at={at} />}
      {obstacle !== null && (
        <p class="bar bad" role="alert">
          It is stuck, and will be retried: {obstacle}
        </p>
      )}
    </>
  )
}

/** The filter of a new revocation holds so many serial numbers in its address. */
const MOST_AGAIN = 50

function Left({ id, left, total, at }: { id: string; left: number; total: number; at: number | undefined }) {
  const { data = [], error } = useApi('listBulkRevocationCertificates', {
    params: { job_id: id },
    query: { only: 'left', limit: String(MOST_AGAIN) },
  })
  const again = href('/bulk-revocations/new', { serial_numbers: data.map((one) => one.serial_number).join(' ') })
  return (
    <>
      <div class="bar bad" role="alert">
        <p>
          <strong>
            {countText(left)} of {counted(total, 'certificate is', 'certificates are')} NOT revoked
          </strong>{' '}
          and valid. <Time at={at} relative={false} />
        </p>
        {data.length > 0 && (
          <ButtonLink needs="bulkRevoke" to={again}>
            {data.length < left ? `Try the first ${data.length} again …` : 'Try again …'}
          </ButtonLink>
        )}
      </div>
      <Problem error={error} />
      <ul class="failures">
        {data.map(({ serial_number, names, outcome }) => (
          <li key={serial_number}>
            <a href={href(`/certificates/${serial_number}`)}>{names.slice(0, 5).join(', ') || serial_number}</a>{' '}
            {outcome}
          </li>
        ))}
      </ul>
    </>
  )
}

interface Seen {
  at: number
  done: number
}

/** A rate over the last second alone would jump. */
const SPAN_MS = 20_000

/**
 * How fast the job goes between the replies that the page has seen, and when it may end.
 * @param at when the reply came, in milliseconds @returns undefined until two replies differ, and at the end
 */
function useJobRate(job: Job, at: number | undefined): string | undefined {
  const seen = useRef<Seen[]>([])
  if (at === undefined || job.status !== 'revoking') return undefined
  const done = job.revoked + job.errors_total
  if (seen.current.at(-1)?.at !== at)
    seen.current = [...seen.current.filter((one) => one.at > at - SPAN_MS), { at, done }]
  const [first] = seen.current
  return first && rateText(first, { at, done }, job.total_matched)
}

/** `1,200 a second; about 3 minutes left`. Pure. */
function rateText(first: Seen, last: Seen, total: number): string | undefined {
  const perSecond = ((last.done - first.done) * 1000) / (last.at - first.at)
  if (!Number.isFinite(perSecond) || perSecond <= 0) return undefined
  const left = spanText((total - last.done) / perSecond)
  return `${countText(Math.max(1, Math.round(perSecond)))} a second; ${left === undefined ? 'less than a second' : `about ${left}`} left`
}
