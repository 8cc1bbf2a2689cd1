/** The background task that ends what else has a compromised key, with its metric and log line. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import { KEY_COMPROMISE } from '../../domain/revocation.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { compromisedKeys } from '../../services/compromised-keys.ts'
import type { BackgroundTask } from '../background-tasks.ts'
import type { Stores } from '../stores.ts'
import { revocationNotes } from './revocation-notes.ts'

/** CA/Browser Forum BR 4.9.1.1 allows 24 hours. */
const INTERVAL_MS = 2_000

export interface Reporting {
  ca: Pick<CaBackend, 'issuers' | 'outage' | 'unreachable' | 'records'>
  log: Logger
  metrics: Pick<Metrics, 'certificatesRevoked'>
}

export function compromisedKeysTask({ ca, log, metrics }: Reporting, stores: Stores): BackgroundTask {
  const round = compromisedKeys({
    store: stores.compromisedKeys,
    note: revocationNotes({ ca, log }, stores),
    onRevoked(ids) {
      metrics.certificatesRevoked.inc(ids.length)
      const facts = { event: 'certificates_revoked', count: ids.length, reason: KEY_COMPROMISE, ids: ids.slice(0, 100) }
      log.info(facts, 'certificates with a compromised key revoked')
    },
  })
  return { name: 'compromised_keys', role: 'cleanup', intervalMs: INTERVAL_MS, round }
}
