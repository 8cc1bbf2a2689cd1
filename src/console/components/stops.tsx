/** What is stopped, on every page: an operator who looks elsewhere would search for the reason. */

import { useApi } from '../api.ts'
import { instantText } from '../format.ts'
import { href } from '../router.ts'

const POLL_MS = 30_000

interface Stop {
  title: string
  since: { since: string | null; set_by: string | null; reason: string | null }
}

export function StopBars() {
  const { data } = useApi('getOverview', {}, { every: POLL_MS })
  if (!data) return null
  const { maintenance, signing } = data
  const stops: Stop[] = [
    ...(signing.signing_stopped
      ? [{ title: 'Signing is stopped: no certificate and no CRL is signed.', since: signing }]
      : []),
    ...(maintenance.maintenance_mode ? [{ title: 'Maintenance: new orders are refused.', since: maintenance }] : []),
  ]
  return (
    <>
      {stops.map(({ title, since: { since, set_by, reason } }) => (
        <div key={title} class="bar warn" role="status">
          <p>
            <strong>{title}</strong> {since !== null && `Since ${instantText(since)} by ${set_by ?? '–'}.`}{' '}
            {reason !== null && `“${reason}”`}
          </p>
          <a href={href('/operation')}>View</a>
        </div>
      ))}
    </>
  )
}
