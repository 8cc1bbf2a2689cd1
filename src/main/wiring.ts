/** Builds the objects of a thread from its settings, and connects them across layers. */

import type { Logger } from 'pino'
import { readSharedSecret } from '../../signer/protocol.ts'
import type { AcmeContext } from '../acme/context.ts'
import type { CaBackend } from '../ca/backend.ts'
import { createCircuitBreaker } from '../ca/circuit-breaker.ts'
import { guardBackend } from '../ca/guarded-backend.ts'
import { createSignerBackend } from '../ca/signer-backend.ts'
import type { Config } from '../config/schema.ts'
import type { Metrics } from '../ops/metrics.ts'
import type { AbuseBudget } from '../overload/abuse-budget.ts'
import { createAccountCache } from '../services/account-cache.ts'
import { type AccountRules, createAccountRules } from '../services/account-rules.ts'
import { type AskForCaa, createCaaFreshness } from '../services/caa-freshness.ts'
import { createChainDownload } from '../services/chain-download.ts'
import { createExternalAccounts } from '../services/external-accounts.ts'
import { Finalization } from '../services/finalization.ts'
import { announcingAccounts, FlowCache } from '../services/flow-cache.ts'
import { type InstanceBoard, openInstanceBoard } from '../services/instance-board.ts'
import { Issuance, type IssuanceEvents } from '../services/issuance.ts'
import { type AskForMailDomains, createMailDomainCheck } from '../services/mail-domains.ts'
import { Ordering } from '../services/ordering.ts'
import { createQuotas } from '../services/quotas.ts'
import { RateLimiter } from '../services/rate-limiter.ts'
import { Registration } from '../services/registration.ts'
import { createRenewal } from '../services/renewal.ts'
import { createRevocation } from '../services/revocation.ts'
import { databaseSerialNumbers, randomSerialNumbers } from '../services/serial-number.ts'
import { ChallengeTriggers, type DispatchValidation } from '../services/validation.ts'
import { createValidationWaits, type WaitEvents } from '../services/validation-waits.ts'
import { openChangeCounters } from '../shared/lib/change-counters.ts'
import { openSharedTable } from '../shared/lib/shared-table.ts'
import type { Nonces } from '../shared/protocol/nonce.ts'
import { Urls } from '../shared/protocol/urls.ts'
import { createAccountStore } from '../store/account-store.ts'
import { createAllowlistStore } from '../store/allowlist-store.ts'
import { type AuthorizationStore, createAuthorizationStore } from '../store/authorization-store.ts'
import { type CertificateStore, createCertificateStore } from '../store/certificate-store.ts'
import { type CrlStore, createCrlStore } from '../store/crl-store.ts'
import { createCsrProfileStore } from '../store/csr-profile-store.ts'
import type { Database } from '../store/database.ts'
import { createEabStore } from '../store/eab-store.ts'
import { createExpiryStore, type ExpiryStore } from '../store/expiry-store.ts'
import { createIssuanceStore, type IssuanceStore } from '../store/issuance-store.ts'
import { createNonceStore, type NonceStore } from '../store/nonce-store.ts'
import { createOrderStore } from '../store/order-store.ts'
import { createRateLimitStore, type RateLimitStore } from '../store/rate-limit-store.ts'
import { createRenewalStore } from '../store/renewal-store.ts'
import { createRetentionStore, type RetentionStore } from '../store/retention-store.ts'
import { nextSerialRange } from '../store/serial-range.ts'
import { createUsageStore, type UsageStore } from '../store/usage-store.ts'
import type { FrontThreadData } from './messages.ts'
import {
  accountRulesPolicy,
  acmeSettings,
  externalAccountPolicy,
  quotaPolicy,
  registrationPolicy,
} from './settings/accounts.ts'
import { eabSecretBox } from './settings/eab-secret.ts'
import { issuancePolicy, renewalPolicy } from './settings/issuance.ts'
import { orderingPolicy } from './settings/orders.ts'
import { rateLimitSettings, urlSettings } from './settings/server.ts'
import { isCaaEnforced, isValidatedHere } from './settings/validation.ts'
import type { ChallengeMethods } from './validation/extensions.ts'

export interface Stores {
  issuance: IssuanceStore
  certificates: CertificateStore
  authorizations: AuthorizationStore
  expiry: ExpiryStore
  retention: RetentionStore
  rateLimits: RateLimitStore
  nonces: NonceStore
  usage: UsageStore
  crls: CrlStore
}

export function createStores(db: Database): Stores {
  return {
    issuance: createIssuanceStore(db),
    certificates: createCertificateStore(db),
    authorizations: createAuthorizationStore(db),
    expiry: createExpiryStore(db),
    retention: createRetentionStore(db),
    rateLimits: createRateLimitStore(db),
    nonces: createNonceStore(db),
    usage: createUsageStore(db),
    crls: createCrlStore(db),
  }
}

export function connectSigner(signer: FrontThreadData['signer'], log: Logger): CaBackend {
  let logged: string | undefined
  return createSignerBackend({
    socketPath: signer.socketPath,
    secret: readSharedSecret(signer.secretFile),
    onConnect({ version, issuers }) {
      logged = undefined
      log.debug({ version, issuers: issuers.map(({ id }) => id) }, 'signer connected')
    },
    onIssuersChanged: (issuers) =>
      log.info({ issuers: issuers.map(({ id }) => id) }, 'the signer has other issuers now'),
    onIssuersRejected: ({ message }) =>
      log.error({ reason: message }, 'the signer has issuers that cannot be used; those of before stay'),
    onDisconnect({ message }) {
      // A long outage repeats the same reason at every attempt.
      log[message === logged ? 'debug' : 'warn']({ reason: message }, 'signer not reachable')
      logged = message
    },
  })
}

/** The CA for issuance, with the stop switch and the circuit breaker (`ca.circuit_breaker_*`). */
export function connectCa({
  config,
  signer,
  board,
  metrics,
  log,
}: {
  config: Config
  signer: FrontThreadData['signer']
  board: InstanceBoard
  metrics: Metrics
  log: Logger
}): CaBackend {
  const failures = config.ca.circuit_breaker_failure_threshold
  const recoveryMs = config.ca.circuit_breaker_recovery_timeout * 1000
  const breaker = createCircuitBreaker(
    { failures, recoveryMs },
    {
      opened() {
        metrics.caCircuitOpened.inc()
        log.error({ failures, recoveryMs }, 'the CA backend failed again and again; it is left alone for a while')
      },
      closed: () => log.warn('the CA backend is available again'),
    },
  )
  return guardBackend(connectSigner(signer, log), breaker, () => board.isOn('stopSigning'))
}

export interface Shared {
  config: Config
  methods: ChallengeMethods
  db: Database
  stores: Stores
  ca: CaBackend
  instanceId: number
  metrics: Metrics
  log: Logger
}

function createThreadQuotas({ config, stores, metrics, log }: Pick<Shared, 'config' | 'stores' | 'metrics' | 'log'>) {
  return createQuotas(stores.usage, quotaPolicy(config), {
    exceeded(kind, accountId) {
      metrics.rateLimited.inc({ category: `quota_${kind}` })
      log.info({ event: 'order_quota_exceeded', kind, accountId }, 'quota exceeded')
    },
    refundFailed: (kind, accountId, error) =>
      log.warn(
        { kind, accountId, reason: (error as Error).message },
        'what was counted for a quota could not be taken back',
      ),
  })
}

function createThreadAccountRules({ config, db }: Pick<Shared, 'config' | 'db'>): AccountRules {
  return createAccountRules(createAllowlistStore(db), createCsrProfileStore(db), accountRulesPolicy(config))
}

export function createThreadIssuance(
  { config, methods, db, stores, ca, instanceId, metrics, log }: Shared,
  store = stores.issuance,
): Issuance {
  const serialNumber =
    config.ca.serial_source === 'database' ? databaseSerialNumbers(() => nextSerialRange(db)) : randomSerialNumbers()
  const events: IssuanceEvents = {
    issued(certificate) {
      metrics.certificatesIssued.inc()
      log.info({ event: 'certificate_issued', ...certificate }, 'certificate issued')
    },
    signingFailed(error, facts) {
      if (error.nameRefusal !== undefined && facts.orderId !== undefined) {
        const advice = 'the signer excludes a name that security.identifier_policy allows; exclude it there as well'
        log.warn({ event: 'name_refused', reason: error.nameRefusal, ...facts }, advice)
        return
      }
      metrics.caSigningErrors.inc()
      // For a certificate without an order, the caller reports the failure itself.
      log[facts.orderId === undefined ? 'debug' : 'error'](
        { event: 'signing_failed', retryable: error.retryable, err: error, ...facts },
        'the CA backend did not sign',
      )
    },
    interrupted(error, facts) {
      const reason = error instanceof Error ? error.message : String(error)
      log.warn({ event: 'issuance_interrupted', reason, ...facts }, 'issuance interrupted; it is finished by itself')
    },
    alarm(message, cause, facts) {
      metrics.alarms.inc()
      const shown = cause instanceof Error ? { message: cause.message, stack: cause.stack } : cause
      log.fatal({ event: 'alarm', ...facts, cause: shown }, message)
    },
  }
  const { certificates } = stores
  const policy = issuancePolicy(config, methods.enabled)
  return new Issuance({ ca, store, certificates, serialNumber, instanceId, policy, events })
}

/** Everything that the ACME endpoints of a front thread are built from. */
export interface AcmeParts {
  shared: Shared
  memory: Pick<FrontThreadData, 'rateTable' | 'board' | 'changes'>
  nonces: Nonces
  budget: AbuseBudget
  dispatch: DispatchValidation
  waitEvents: WaitEvents
  askForCaa: AskForCaa
  /** Undefined when mail domains are not checked. */
  askForMailDomains: AskForMailDomains | undefined
}

export function createAcmeContext(parts: AcmeParts): AcmeContext {
  const { shared, nonces, budget, dispatch, waitEvents, askForCaa, askForMailDomains } = parts
  const { rateTable, board, changes } = parts.memory
  const { config, methods, db, stores, instanceId, metrics, log } = shared
  const changeCounters = openChangeCounters(changes)
  // The cache needs a single instance, because instances do not report changes to each other. Only
  // a single instance can use `nonce.store: memory`.
  const flowCache =
    config.nonce.store === 'memory'
      ? new FlowCache(changeCounters, !accountRulesPolicy(config).requireCsrProfile)
      : undefined
  const validationWaits = createValidationWaits(waitEvents)
  const accountStore = announcingAccounts(createAccountStore(db), changeCounters)
  const authorizationStore = flowCache ? flowCache.authorizations(stores.authorizations) : stores.authorizations
  const accounts = createAccountCache(accountStore.find)
  const rules = createThreadAccountRules(shared)
  const externalAccounts = createExternalAccounts(
    createEabStore(db),
    eabSecretBox(config),
    externalAccountPolicy(config),
  )
  const requireFreshCaa = isCaaEnforced(config) ? createCaaFreshness(authorizationStore, askForCaa) : undefined
  const requireMailDomains = askForMailDomains && createMailDomainCheck(askForMailDomains)
  const renewal = createRenewal(createRenewalStore(db), stores.certificates, renewalPolicy(config))
  const limits = new RateLimiter({
    table: openSharedTable(rateTable),
    store: stores.rateLimits,
    settings: rateLimitSettings(config),
    events: {
      limited(category, subject) {
        metrics.rateLimited.inc({ category })
        log.info({ event: 'rate_limit_exceeded', category, subject }, 'rate limit exceeded')
      },
    },
  })
  const quotas = createThreadQuotas(shared)
  const ordering = new Ordering({
    orders: flowCache ? flowCache.orders(createOrderStore(db)) : createOrderStore(db),
    authorizations: authorizationStore,
    rules,
    renewal,
    quotas,
    limits,
    policy: orderingPolicy(config, methods.enabled),
    events: {
      ordered: () => metrics.ordersCreated.inc(),
      approved({ by, ...facts }, { requester: { accountId }, address, requestId }, orderId) {
        const line = { event: 'identifiers_approved', by, accountId, orderId, ...facts, address, requestId }
        log.info(line, 'identifiers are valid without a challenge')
      },
    },
  })
  const issuance = createThreadIssuance(shared, flowCache?.issuance(stores.issuance))
  return {
    urls: new Urls(urlSettings(config)),
    settings: acmeSettings(config),
    nonces,
    limits,
    budget,
    board: openInstanceBoard(board),
    accounts,
    registration: new Registration({
      store: accountStore,
      externalAccounts,
      cache: accounts,
      requireMailDomains,
      certificates: stores.certificates,
      policy: registrationPolicy(config),
      events: {
        registered(account, eabKid) {
          metrics.accountsCreated.inc()
          const { id: accountId, thumbprint } = account
          log.info({ event: 'account_created', accountId, thumbprint, ...(eabKid && { eabKid }) }, 'account created')
        },
        deactivated(account) {
          metrics.accountsDeactivated.inc()
          log.info({ event: 'account_deactivated', accountId: account.id }, 'account deactivated')
        },
        keyChanged({ id: accountId, thumbprint }) {
          log.info({ event: 'key_changed', accountId, thumbprint }, 'account key changed')
        },
      },
    }),
    ordering,
    challenges: new ChallengeTriggers({
      store: authorizationStore,
      instanceId,
      isValidatedHere: isValidatedHere(config, methods.extensions),
      dispatch,
      recall: (requester, authorizationId) => flowCache?.authorization(requester, authorizationId),
      remember: (authorizationId, recorded) => flowCache?.attempted(authorizationId, recorded),
      waits: validationWaits,
    }),
    validationWaits,
    issuance,
    finalization: new Finalization({
      issuance,
      orders: ordering,
      store: stores.issuance,
      certificates: stores.certificates,
      rules,
      quotas,
      limits,
      requireFreshCaa,
      flowCache,
      policy: issuancePolicy(config, methods.enabled),
    }),
    chains: createChainDownload(
      stores.certificates,
      { includeRoot: config.ca.include_root, issuers: shared.ca.issuers },
      flowCache,
    ),
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
