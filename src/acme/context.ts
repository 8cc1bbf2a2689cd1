/** The input of every ACME endpoint: resolved settings and the services that do the work. */

import type { AbuseBudget } from '../overload/abuse-budget.ts'
import type { AccountCache } from '../services/account-cache.ts'
import type { ChainDownload } from '../services/chain-download.ts'
import type { ChallengeTriggers } from '../services/challenge-triggers.ts'
import type { Finalization } from '../services/finalization.ts'
import type { Issuance } from '../services/issuance.ts'
import type { Ordering } from '../services/ordering.ts'
import type { RateLimiter } from '../services/rate-limiter.ts'
import type { Registration } from '../services/registration.ts'
import type { Renewal } from '../services/renewal.ts'
import type { RevocationService } from '../services/revocation.ts'
import type { SharedFlags } from '../services/shared-flags.ts'
import type { ValidationWaits } from '../services/validation-waits.ts'
import type { AccountKeyPolicy } from '../shared/protocol/jwk.ts'
import type { JwsAlgorithm } from '../shared/protocol/jws-algorithms.ts'
import type { Nonces } from '../shared/protocol/nonce.ts'
import type { Urls } from '../shared/protocol/urls.ts'

export interface AcmeSettings {
  algorithms: readonly JwsAlgorithm[]
  accountKeys: AccountKeyPolicy
  directoryMeta: DirectoryMeta
  dnsPersist: DnsPersistSettings
  orderRetryAfterSeconds: number
  challengeRetryAfterSeconds: number
  ordersPageSize: number
}

/** RFC 8555 §7.1.1; members that do not apply are absent. */
export interface DirectoryMeta {
  termsOfService?: string
  website?: string
  caaIdentities?: readonly string[]
  externalAccountRequired?: boolean
  /** draft-ietf-acme-profiles: name → description. */
  profiles?: Record<string, string>
  /** draft-ietf-acme-dns-persist-02 §3.2, §4.1. */
  issuerDomainNames?: readonly string[]
  accountHashPrefix?: string
}

/** What a dns-persist-01 challenge shows about this service. */
export interface DnsPersistSettings {
  issuerDomainNames: readonly string[]
  /** Draft 02 adds its member names to those of draft 01. */
  draft: '01' | '02'
}

export interface AcmeContext {
  urls: Urls
  settings: AcmeSettings
  nonces: Nonces
  limits: RateLimiter
  budget: AbuseBudget
  flags: Pick<SharedFlags, 'isOn'>
  accounts: AccountCache
  registration: Registration
  ordering: Ordering
  challenges: ChallengeTriggers
  validationWaits: ValidationWaits
  issuance: Issuance
  finalization: Finalization
  chains: ChainDownload
  revocation: RevocationService
  renewal: Renewal
}
