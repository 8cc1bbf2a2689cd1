/** What commands on the database have revoked, in the metrics of the service. */

import type { Logger } from 'pino'
import type { Metrics } from '../ops/metrics.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'
import type { Database } from '../store/database.ts'
import { takeRevocations } from '../store/server-settings.ts'

const LOOK_MS = 5_000

export function countCommandRevocations(
  db: Database,
  { certificatesRevoked, accountsRevoked }: Pick<Metrics, 'certificatesRevoked' | 'accountsRevoked'>,
  log: Logger,
): Loop {
  return startLoop({
    name: 'command_revocations',
    intervalMs: LOOK_MS,
    async round() {
      const taken = await takeRevocations(db)
      if (!taken) return
      certificatesRevoked.inc(taken.certificates)
      accountsRevoked.inc(taken.accounts)
    },
    onError: (_, error) => log.debug({ err: error }, 'revocations by commands could not be counted'),
  })
}
