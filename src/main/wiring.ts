/** Builds the objects of a thread from its settings: the one place that calls constructors across layers. */

import type { Logger } from 'pino'
import { readSharedSecret } from '../../signer/protocol.ts'
import type { AcmeContext } from '../acme/context.ts'
import type { CaBackend } from '../ca/backend.ts'
import { createSignerBackend } from '../ca/signer-backend.ts'
import type { Config } from '../config/schema.ts'
import { openReplayWindow } from '../lib/replay-window.ts'
import type { Metrics } from '../ops/metrics.ts'
import { createNonces } from '../protocol/nonce.ts'
import { createUrls } from '../protocol/urls.ts'
import { createAccountCache } from '../services/account-cache.ts'
import { createChainDownload } from '../services/chain-download.ts'
import { createIssuance, type Issuance } from '../services/issuance.ts'
import { createOrdering } from '../services/ordering.ts'
import { createRegistration } from '../services/registration.ts'
import { createRenewal } from '../services/renewal.ts'
import { createRevocation } from '../services/revocation.ts'
import { databaseSerialNumbers, randomSerialNumbers } from '../services/serial-number.ts'
import { createChallengeTriggers, type DispatchValidation } from '../services/validation.ts'
import { createAccountStore } from '../store/account-store.ts'
import { type AuthorizationStore, createAuthorizationStore } from '../store/authorization-store.ts'
import { type CertificateStore, createCertificateStore } from '../store/certificate-store.ts'
import type { Database } from '../store/database.ts'
import { createExpiryStore, type ExpiryStore } from '../store/expiry-store.ts'
import { createIssuanceStore, type IssuanceStore } from '../store/issuance-store.ts'
import { createOrderStore } from '../store/order-store.ts'
import { createRenewalStore } from '../store/renewal-store.ts'
import { nextSerialRange } from '../store/serial-range.ts'
import type { FrontThreadData } from './messages.ts'
import {
  acmeSettings,
  issuancePolicy,
  orderingPolicy,
  registrationPolicy,
  renewalPolicy,
  urlSettings,
} from './settings.ts'

export interface Stores {
  issuance: IssuanceStore
  certificates: CertificateStore
  authorizations: AuthorizationStore
  expiry: ExpiryStore
}

export function createStores(db: Database): Stores {
  return {
    issuance: createIssuanceStore(db),
    certificates: createCertificateStore(db),
    authorizations: createAuthorizationStore(db),
    expiry: createExpiryStore(db),
  }
}

export function connectSigner(signer: FrontThreadData['signer'], log: Logger): CaBackend {
  return createSignerBackend({
    socketPath: signer.socketPath,
    secret: readSharedSecret(signer.secretFile),
    onConnect: ({ version, issuers }) =>
      log.debug({ version, issuers: issuers.map(({ id }) => id) }, 'signer connected'),
    onDisconnect: (reason) => log.warn({ reason: reason.message }, 'signer not reachable'),
  })
}

export interface Shared {
  config: Config
  db: Database
  stores: Stores
  ca: CaBackend
  instanceId: number
  metrics: Metrics
  log: Logger
}

export function createThreadIssuance({ config, db, stores, ca, instanceId, metrics, log }: Shared): Issuance {
  const serialNumber =
    config.ca.serial_source === 'database' ? databaseSerialNumbers(() => nextSerialRange(db)) : randomSerialNumbers()
  const events = {
    issued(certificate: object) {
      metrics.certificatesIssued.inc()
      log.info({ event: 'certificate_issued', ...certificate }, 'certificate issued')
    },
    signingFailed(error: Error & { retryable: boolean }, context: object) {
      metrics.caSigningErrors.inc()
      log.error(
        { event: 'signing_failed', retryable: error.retryable, err: error, ...context },
        'the CA backend did not sign',
      )
    },
    alarm(message: string, cause: unknown) {
      metrics.alarms.inc()
      log.fatal(
        { event: 'alarm', cause: cause instanceof Error ? { message: cause.message, stack: cause.stack } : cause },
        message,
      )
    },
  }
  return createIssuance(
    { ca, store: stores.issuance, certificates: stores.certificates, serialNumber, instanceId, events },
    issuancePolicy(config),
  )
}

export function createAcmeContext(
  shared: Shared,
  nonce: FrontThreadData['nonce'],
  dispatch: DispatchValidation,
): AcmeContext {
  const { config, db, stores, instanceId, metrics, log } = shared
  const accountStore = createAccountStore(db)
  const accounts = createAccountCache(accountStore.find)
  const renewal = createRenewal(createRenewalStore(db), stores.certificates, renewalPolicy(config))
  return {
    urls: createUrls(urlSettings(config)),
    settings: acmeSettings(config),
    nonces: createNonces(
      { key: nonce.key, epochMs: nonce.epochMs, expirySeconds: config.nonce.expiry_seconds },
      openReplayWindow(nonce.window),
    ),
    accounts,
    registration: createRegistration(accountStore, accounts, registrationPolicy(config), {
      registered(account) {
        metrics.accountsCreated.inc()
        log.info({ event: 'account_created', accountId: account.id, thumbprint: account.thumbprint }, 'account created')
      },
      deactivated(account) {
        metrics.accountsDeactivated.inc()
        log.info({ event: 'account_deactivated', accountId: account.id }, 'account deactivated')
      },
      keyChanged(account) {
        log.info({ event: 'key_changed', accountId: account.id, thumbprint: account.thumbprint }, 'account key changed')
      },
    }),
    ordering: createOrdering(createOrderStore(db), stores.authorizations, renewal, orderingPolicy(config), {
      ordered: () => metrics.ordersCreated.inc(),
    }),
    challenges: createChallengeTriggers(stores.authorizations, instanceId, dispatch),
    issuance: createThreadIssuance(shared),
    chains: createChainDownload(stores.certificates, {
      includeRoot: config.ca.include_root,
      issuers: shared.ca.issuers,
    }),
    renewal,
    revocation: createRevocation(stores.certificates, {
      revoked(certificate, reason) {
        metrics.certificatesRevoked.inc()
        const { id, accountId, serialNumber } = certificate
        log.info({ event: 'certificate_revoked', id, accountId, serialNumber, reason }, 'certificate revoked')
      },
    }),
  }
}
