/** Writes the activity of accounts that a front thread has seen. */

import type { Logger } from 'pino'
import { startLoop } from '../../runtime/loop.ts'
import { AccountActivity } from '../../services/account-activity.ts'
import { recordActivity } from '../../store/account-activity-store.ts'
import type { Database } from '../../store/database.ts'

const WRITE_MS = 30_000

export interface ThreadActivity {
  activity: AccountActivity
  close(): Promise<void>
}

export function startActivity(db: Database, log: Logger): ThreadActivity {
  const activity = new AccountActivity((seen) => recordActivity(db, seen))
  const onError = (error: unknown) => log.warn({ err: error }, 'the activity of accounts could not be recorded')
  const loop = startLoop({
    name: 'account activity',
    intervalMs: WRITE_MS,
    round: () => activity.write(),
    onError: (_, error) => onError(error),
  })
  return {
    activity,
    async close() {
      await loop.stop()
      await activity.write().catch(onError)
    },
  }
}
