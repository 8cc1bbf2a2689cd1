/** The announcement of this instance's database at the signer: its parts, and its loop. */

import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { ANNOUNCE_MS } from '../../../signer/protocol/methods.ts'
import type { SignerRecords } from '../../ca/signer-records.ts'
import type { Config } from '../../config/schema.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'
import { SignerUseWatch } from '../../services/reconcile/signer-use-watch.ts'
import type { Database } from '../../store/database.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { readIncarnation } from '../../store/incarnation.ts'

export function watchSignerUse(
  records: SignerRecords,
  { config, db, metrics }: { config: Config; db: Database; metrics: Metrics },
): SignerUseWatch {
  const store = createDecisionStore(db)
  return new SignerUseWatch({
    records,
    async place() {
      const [{ id }, { incarnation }] = await Promise.all([store.identity(), readIncarnation(db)])
      return { database: id, incarnation }
    },
    requester: `${hostname()} ${config.server.external_url}`.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 200),
    onAnswer: (others) => metrics.otherDatabases.set(others),
  })
}

export function announceRegularly(use: SignerUseWatch, log: Logger): Loop {
  return startLoop({
    name: 'database_announcement',
    intervalMs: ANNOUNCE_MS,
    round: () => use.announce(),
    onError: (_, error) => log.debug({ err: error }, 'the database could not be announced at the signer'),
  })
}
