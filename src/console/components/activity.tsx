/** With which client an account was last seen, and when. */

import { Time } from './basics.tsx'
import type { Column } from './table.tsx'

interface Activity {
  client: string | null
  last_seen_at: string | null
}

const NotKnown = () => <span class="quiet fixed">not known</span>

export const Client = ({ client }: Pick<Activity, 'client'>) => <>{client ?? <NotKnown />}</>

/** One form of the time: lists have little room beside it. */
export const LastSeen = ({ last_seen_at: at }: Pick<Activity, 'last_seen_at'>) =>
  at ? <Time at={at} relative={false} /> : <NotKnown />

export const LAST_SEEN: Column<Pick<Activity, 'last_seen_at'>> = {
  head: 'Last seen',
  kind: 'fixed',
  by: ({ last_seen_at }) => last_seen_at,
  cell: (row) => <LastSeen {...row} />,
}
