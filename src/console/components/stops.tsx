/** What is stopped, on every page: an operator who looks elsewhere would search for the reason. */

import { useApi } from '../api.ts'
import { instantText } from '../format.ts'
import { href } from '../router.ts'
import { WORDS } from '../words.ts'

const POLL_MS = 30_000
const words = WORDS.stops

interface Stop {
  title: string
  since: { since: string | null; set_by: string | null; reason: string | null }
}

export function StopBars() {
  const { data } = useApi('getOverview', {}, { every: POLL_MS })
  if (!data) return null
  const { maintenance, signing } = data
  const stops: Stop[] = [
    ...(signing.signing_stopped ? [{ title: words.signing, since: signing }] : []),
    ...(maintenance.maintenance_mode ? [{ title: words.maintenance, since: maintenance }] : []),
  ]
  return (
    <>
      {stops.map(({ title, since: { since, set_by, reason } }) => (
        <div key={title} class="bar warn" role="status">
          <p>
            <strong>{title}</strong> {since !== null && words.since(instantText(since), set_by ?? '–')}{' '}
            {reason !== null && words.reason(reason)}
          </p>
          <a href={href('/operation')}>{WORDS.overview.look}</a>
        </div>
      ))}
    </>
  )
}
