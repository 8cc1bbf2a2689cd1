/** Builds everything that the ACME endpoints of a front thread work with. */

import type { AcmeContext } from '../../acme/endpoint.ts'
import { csrBackendNames } from '../../config/backends.ts'
import { rateLimitEvents } from '../../front/events.ts'
import type { AbuseBudget } from '../../overload/abuse-budget.ts'
import type { AskForCaa } from '../../services/caa-freshness.ts'
import { ChallengeTriggers, type DispatchValidation } from '../../services/challenge-triggers.ts'
import type { NoteAcmeAct } from '../../services/decisions/acme-decisions.ts'
import { FlowCache } from '../../services/flow-cache.ts'
import { RateLimiter } from '../../services/rate-limiter.ts'
import type { AskForMailDomains } from '../../services/registration.ts'
import { openSharedFlags } from '../../services/shared-state.ts'
import { createValidationWaits, type WaitEvents } from '../../services/validation-waits.ts'
import { accountRulesPolicy, acmeSettings } from '../../settings/account-settings.ts'
import { rateLimitSettings, urlSettings } from '../../settings/server-settings.ts'
import { isValidatedHere } from '../../settings/validation-settings.ts'
import { openChangeCounters, openSharedTable } from '../../shared/lib/shared-memory.ts'
import type { Nonces } from '../../shared/protocol/nonce.ts'
import { Urls } from '../../shared/protocol/urls.ts'
import type { ThreadParts } from '../ca/start-issuance.ts'
import type { FrontThreadData } from '../messages.ts'
import { createAccountServices } from './acme-accounts.ts'
import { createOrderServices, type OrderParts } from './acme-orders.ts'

interface AcmeParts {
  thread: ThreadParts
  memory: Pick<FrontThreadData, 'rateTable' | 'flags' | 'changes'>
  nonces: Nonces
  budget: AbuseBudget
  dispatch: DispatchValidation
  waitEvents: WaitEvents
  askForCaa: AskForCaa
  /** Undefined when mail domains are not checked. */
  askForMailDomains: AskForMailDomains | undefined
  issueFromCsr: OrderParts['issueFromCsr']
  note: NoteAcmeAct
}

export function createAcmeContext(parts: AcmeParts): AcmeContext {
  const { thread, memory, nonces, budget, dispatch, waitEvents, askForCaa, askForMailDomains, note } = parts
  const { config, methods, stores, instanceId } = thread
  const changes = openChangeCounters(memory.changes)
  // The cache needs a single instance, because instances do not report changes to each other. Only
  // a single instance can use `nonce.store: memory`.
  const flowCache =
    config.nonce.store === 'memory' ? new FlowCache(changes, !accountRulesPolicy(config).requireCsrProfile) : undefined
  const authorizations = flowCache ? flowCache.authorizations(stores.authorizations) : stores.authorizations
  const validationWaits = createValidationWaits(waitEvents)
  const limits = new RateLimiter({
    table: openSharedTable(memory.rateTable),
    store: stores.rateLimits,
    settings: rateLimitSettings(config),
    events: rateLimitEvents(thread),
  })
  const flags = openSharedFlags(memory.flags, csrBackendNames(config))
  const { rules, ...accounts } = createAccountServices(thread, changes, askForMailDomains, note)
  return {
    urls: new Urls(urlSettings(config)),
    settings: acmeSettings(config),
    nonces,
    limits,
    budget,
    validationWaits,
    flags,
    ...accounts,
    ...createOrderServices({
      thread,
      authorizations,
      flowCache,
      rules,
      limits,
      askForCaa,
      note,
      issueFromCsr: parts.issueFromCsr,
      flags,
    }),
    challenges: new ChallengeTriggers({
      store: authorizations,
      instanceId,
      isValidatedHere: isValidatedHere(config, methods.extensions),
      dispatch,
      recall: (requester, authorizationId) => flowCache?.authorization(requester, authorizationId),
      remember: (authorizationId, recorded) => flowCache?.attempted(authorizationId, recorded),
      waits: validationWaits,
    }),
  }
}
