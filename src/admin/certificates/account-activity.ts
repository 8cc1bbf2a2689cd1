/** The members `client` and `last_seen_at` of bodies about an account. */

import * as z from 'zod/v4'
import { timeOrNull, timestamp } from '../schemas.ts'

export const activityMembers = () => ({
  client: z.string().nullable().meta({
    description: 'The User-Agent of its client when it was last seen. Null: not known.',
  }),
  last_seen_at: timestamp().nullable().meta({
    description: 'Its last registration or order, to the hour. Null: not known.',
  }),
})

export const activityBody = (seen: { user_agent: string | null; last_seen_at: Date | null } | undefined) => ({
  client: seen?.user_agent ?? null,
  last_seen_at: timeOrNull(seen?.last_seen_at ?? null),
})
