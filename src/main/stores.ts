/** The stores of a thread and its event writer, on its own database connections. */

import type { Logger } from 'pino'
import { readNames } from '../domain/certificate-names.ts'
import { EventWriter } from '../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { createUsageStore } from '../store/account-rules-store.ts'
import { createArchiveStore } from '../store/archive-store.ts'
import { createAuthorizationStore } from '../store/authorization-store.ts'
import { createNameWalk } from '../store/certificate-names-store.ts'
import { createCertificateStore } from '../store/certificate-store.ts'
import { createClockStore } from '../store/clock-store.ts'
import { createCompromisedKeyStore } from '../store/compromised-key-store.ts'
import { createCrlStore } from '../store/crl-store.ts'
import type { Database } from '../store/database.ts'
import { createExpiryStore } from '../store/expiry-store.ts'
import { createIssuanceStore } from '../store/issuance-store.ts'
import { createNonceAuditStore, createNonceStore } from '../store/nonce-store.ts'
import { createRateLimitStore } from '../store/rate-limit-store.ts'
import { createRetentionStore } from '../store/retention-store.ts'
import { createSignerMarkStore } from '../store/signer-mark-store.ts'

export type Stores = ReturnType<typeof createStores>

export function createStores(db: Database) {
  return {
    issuance: createIssuanceStore(db),
    certificates: createCertificateStore(db),
    authorizations: createAuthorizationStore(db),
    expiry: createExpiryStore(db),
    retention: createRetentionStore(db),
    archive: createArchiveStore(db),
    rateLimits: createRateLimitStore(db),
    nonces: createNonceStore(db),
    nonceAudit: createNonceAuditStore(db),
    usage: createUsageStore(db),
    clock: createClockStore(db),
    crls: createCrlStore(db),
    marks: createSignerMarkStore(db),
    compromisedKeys: createCompromisedKeyStore(db),
    renameCertificates: createNameWalk(db, readNames),
  }
}

export function createEventWriter(db: Pick<Database, 'query'>, log: Logger, metrics: Metrics): EventWriter {
  beginAtZero(metrics.eventsDropped)
  return new EventWriter({
    db,
    events: {
      dropped: (count) => metrics.eventsDropped.inc(count),
      postponed: (error) => log.warn({ err: error }, 'events could not be written'),
    },
  })
}
