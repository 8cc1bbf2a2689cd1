/** The services from order to certificate in a front thread. */

import { revocationEvents } from '../../admin/revocations/revocation-events.ts'
import { orderingEvents, quotaEvents } from '../../front/events.ts'
import type { AccountRules } from '../../services/account-rules.ts'
import { type AskForCaa, createCaaFreshness } from '../../services/caa-freshness.ts'
import { createChainDownload } from '../../services/chain-download.ts'
import { CsrFinalization, type CsrFinalizationOptions } from '../../services/csr-finalization.ts'
import { Finalization } from '../../services/finalization.ts'
import type { FlowCache } from '../../services/flow-cache.ts'
import { Ordering, type OrderingOptions } from '../../services/ordering.ts'
import { createQuotas, type RateLimiter } from '../../services/rate-limiter.ts'
import { createRenewal } from '../../services/renewal.ts'
import { createRevocation } from '../../services/revocation.ts'
import type { SharedFlags } from '../../services/shared-state.ts'
import { quotaPolicy } from '../../settings/account-settings.ts'
import { issuancePolicy, renewalPolicy } from '../../settings/issuance-settings.ts'
import { orderingPolicy } from '../../settings/order-settings.ts'
import { isCaaEnforced } from '../../settings/validation-settings.ts'
import type { AuthorizationStore } from '../../store/authorization-store.ts'
import { createCsrIssuanceStore } from '../../store/csr-issuance-store.ts'
import { createOrderStore } from '../../store/order-store.ts'
import { createRenewalStore } from '../../store/renewal-store.ts'
import { createThreadIssuance, revocationNotes, type ThreadParts } from '../ca/start-issuance.ts'

export interface OrderParts {
  thread: ThreadParts
  authorizations: AuthorizationStore
  flowCache: FlowCache | undefined
  rules: AccountRules
  limits: RateLimiter
  askForCaa: AskForCaa
  note: OrderingOptions['note']
  /** Hands an issuance from a CSR to the supervisor; undefined when the signer signs everything. */
  issueFromCsr: CsrFinalizationOptions['issue'] | undefined
  flags: Pick<SharedFlags, 'isOn' | 'secondsAway'>
}

export function createOrderServices(parts: OrderParts) {
  const { thread, authorizations, flowCache, rules, limits, askForCaa, note } = parts
  const { config, methods, db, stores } = thread
  const csrStore = createCsrIssuanceStore(db)
  const orderStore = createOrderStore(db)
  const renewal = createRenewal(createRenewalStore(db), stores.certificates, renewalPolicy(config))
  const quotas = createQuotas(stores.usage, quotaPolicy(config), quotaEvents(thread))
  const issuance = createThreadIssuance(thread, flowCache?.issuance(stores.issuance))
  const ordering = new Ordering({
    orders: flowCache ? flowCache.orders(orderStore) : orderStore,
    authorizations,
    rules,
    renewal,
    issuance,
    quotas,
    limits,
    policy: orderingPolicy(config, methods.enabled),
    note,
    events: orderingEvents(thread),
  })
  const finalization = new Finalization({
    issuance,
    orders: ordering,
    store: stores.issuance,
    certificates: stores.certificates,
    rules,
    quotas,
    limits,
    flowCache,
    fromCsr:
      parts.issueFromCsr &&
      new CsrFinalization({
        store: flowCache ? flowCache.csrIssuance(csrStore) : csrStore,
        isSignerUsable: () => thread.ca.outage() === undefined && thread.ca.unreachable() === undefined,
        isStopped: () => parts.flags.isOn('stopSigning'),
        secondsAway: parts.flags.secondsAway,
        issue: parts.issueFromCsr,
        instanceId: thread.instanceId,
      }),
    requireFreshCaa: isCaaEnforced(config) ? createCaaFreshness(authorizations, askForCaa) : undefined,
    policy: issuancePolicy(config, methods.enabled),
  })
  const chainSettings = { includeRoot: config.ca.include_root, issuers: thread.ca.issuers }
  return {
    ordering,
    issuance,
    finalization,
    renewal,
    chains: createChainDownload(stores.certificates, chainSettings, flowCache),
    revocation: createRevocation(stores.certificates, revocationNotes(thread, stores), note, revocationEvents(thread)),
  }
}
