/** The stores of a thread and its event writer, on its own database connections. */

import type { Logger } from 'pino'
import { readNames } from '../domain/certificate-names.ts'
import { EventWriter } from '../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { createUsageStore, type UsageStore } from '../store/account-rules-store.ts'
import { type ArchiveStore, createArchiveStore } from '../store/archive-store.ts'
import { type AuthorizationStore, createAuthorizationStore } from '../store/authorization-store.ts'
import { createNameWalk } from '../store/certificate-names-store.ts'
import { type CertificateStore, createCertificateStore } from '../store/certificate-store.ts'
import { type ClockStore, createClockStore } from '../store/clock-store.ts'
import { type CompromisedKeyStore, createCompromisedKeyStore } from '../store/compromised-key-store.ts'
import { type CrlStore, createCrlStore } from '../store/crl-store.ts'
import type { Database } from '../store/database.ts'
import { createExpiryStore, type ExpiryStore } from '../store/expiry-store.ts'
import { createIssuanceStore, type IssuanceStore } from '../store/issuance-store.ts'
import { createNonceAuditStore, createNonceStore, type NonceAuditStore, type NonceStore } from '../store/nonce-store.ts'
import { createRateLimitStore, type RateLimitStore } from '../store/rate-limit-store.ts'
import { createRetentionStore, type RetentionStore } from '../store/retention-store.ts'
import { createSignerMarkStore, type SignerMarkStore } from '../store/signer-mark-store.ts'

export interface Stores {
  issuance: IssuanceStore
  certificates: CertificateStore
  authorizations: AuthorizationStore
  expiry: ExpiryStore
  retention: RetentionStore
  archive: ArchiveStore
  rateLimits: RateLimitStore
  nonces: NonceStore
  nonceAudit: NonceAuditStore
  usage: UsageStore
  clock: ClockStore
  crls: CrlStore
  marks: SignerMarkStore
  compromisedKeys: CompromisedKeyStore
  renameCertificates(): Promise<number | undefined>
}

export function createStores(db: Database): Stores {
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
