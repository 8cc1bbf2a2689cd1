/** The type of an ACME endpoint: its request, its reply, and the services and settings it works with. */

import * as z from 'zod/v4'
import type { AddressCategory } from '../domain/rate-limit.ts'
import type { AccountCache, KnownAccount } from '../services/account-cache.ts'
import type { ChainDownload } from '../services/chain-download.ts'
import type { ChallengeTriggers } from '../services/challenge-triggers.ts'
import type { Finalization } from '../services/finalization.ts'
import type { Issuance } from '../services/issuance.ts'
import type { Ordering } from '../services/ordering.ts'
import type { RateLimiter, Visit } from '../services/rate-limiter.ts'
import type { Registration } from '../services/registration.ts'
import type { Renewal } from '../services/renewal.ts'
import type { RevocationService } from '../services/revocation.ts'
import type { SharedFlags } from '../services/shared-state.ts'
import type { ValidationWaits } from '../services/validation-waits.ts'
import type { AccountKey, AccountKeyPolicy } from '../shared/protocol/jwk.ts'
import { type FlattenedJws, isAbsent, type JwsAlgorithm } from '../shared/protocol/jws.ts'
import type { Nonces } from '../shared/protocol/nonce.ts'
import type { Problem } from '../shared/protocol/problem.ts'
import type { ResourceName, Urls } from '../shared/protocol/urls.ts'

/** The answer of a resource; `application.ts` adds the headers common to all resources. */
export interface AcmeReply {
  status: number
  /** JSON unless `contentType` says otherwise. */
  body?: string
  contentType?: string
  location?: string | undefined
  retryAfterSeconds?: number | undefined
  /** Values of further Link headers. */
  links?: readonly string[] | undefined
  /** Names what the request created when the path does not name it. */
  made?: Concerned
}

/** A request that passed the gate. */
export interface AcmeRequest<P, S extends SignedBy> {
  signer: Signer<S>
  /** The UUID in the path; empty when the resource has none. */
  id: string
  /** The path of the kid when the client uses the account URL of a former server; else undefined. */
  accountPath: string | undefined
  /** The number after the UUID of a certificate; 0 when absent. */
  chain: number
  /** The query string; empty when absent. */
  query: string
  /** Undefined for a POST-as-GET. */
  payload: P
  /** The outer JWS; key-change needs it because its payload is another JWS. */
  jws: FlattenedJws
  /** Charges the request's rate limits; undefined when the resource has none. */
  visit: Visit | undefined
  requestId: string
  /** The client's address, read behind trusted proxies. */
  address: string
  now: Date
  /** True when the client has closed the connection. */
  isGone(): boolean
}

/** `either` is for revocation, signed by an account's key or by the certificate's key. */
export type SignedBy = 'jwk' | 'kid' | 'either'

export type Signer<S extends SignedBy> = S extends 'kid'
  ? KnownAccount
  : S extends 'jwk'
    ? AccountKey
    : KnownAccount | AccountKey

/** `none` accepts only a fetch. A schema requires a payload, unless `orFetch` allows an empty one. */
export type PayloadKind<P> = 'none' | { schema: z.ZodType<P>; orFetch?: boolean }

export interface AcmeEndpoint<P = unknown, S extends SignedBy = SignedBy> {
  resource: ResourceName
  signedBy: S
  payload: PayloadKind<P>
  /** Counts the request for the client's address. The handler charges the other limits. */
  limit?: AddressCategory
  /** Only requests that bring their key are counted: a stranger chooses it, and needs no account. */
  limitsOnlyJwk?: true
  /** A payload that may turn out to be exempt from the limit; until its handler has judged, it is counted apart. */
  mayBeExempt?(payload: Buffer): boolean
  /** Refused while the server is in maintenance. */
  pausedInMaintenance?: true
  /** Only for accounts that have agreed to the terms in force (RFC 8555 §7.3.3). */
  needsCurrentTerms?: true
  handle(request: AcmeRequest<P, S>, context: AcmeContext): Promise<AcmeReply>
}

/** Checks the types of one endpoint, then erases them for the table in `application.ts`. */
export function acmeEndpoint<P, S extends SignedBy>(endpoint: AcmeEndpoint<P, S>): AcmeEndpoint {
  return endpoint as unknown as AcmeEndpoint
}

/** Account and order of a request for its log line, once they are known. */
interface Concerned {
  /** The signer's account, or the account just created. */
  accountId?: string | undefined
  orderId?: string | undefined
}

/** One request, as the front knows it. */
export interface AcmeExchange extends Concerned {
  requestId: string
  /** The client's address, read behind trusted proxies. */
  address: string
  now: Date
  scheme: 'http' | 'https'
  /** The request has an `Origin`: it comes from a browser. */
  fromBrowser: boolean
  /** Why the request was refused. */
  refusal?: Problem | undefined
}

/** A payload member that is a word, name or URL. All accepted values are shorter. */
export const Text = z.string().max(1_000)

/** RFC 8555 §7.1.3, of any type and value. */
export const Identifier = z.object({ type: Text, value: Text })

/** A payload member that may be left out; some clients write null or an empty string instead. */
export const optional = <T extends z.ZodType>(member: T) =>
  z.preprocess((value) => (isAbsent(value) ? undefined : value), member.optional()).optional()

export interface AcmeSettings {
  algorithms: readonly JwsAlgorithm[]
  accountKeys: AccountKeyPolicy
  directoryMeta: DirectoryMeta
  dnsPersist: DnsPersistSettings
  orderRetryAfterSeconds: number
  challengeRetryAfterSeconds: number
  ordersPageSize: number
}

/** RFC 8555 §7.1.1. Members that do not apply are absent, except `externalAccountRequired`. */
export interface DirectoryMeta {
  termsOfService?: string
  website?: string
  caaIdentities?: readonly string[]
  externalAccountRequired: boolean
  /** draft-ietf-acme-profiles: name → description. */
  profiles?: Record<string, string>
  /** draft-ietf-acme-dns-persist-02 §3.2, §4.1. */
  issuerDomainNames?: readonly string[]
  accountHashPrefix?: string
}

/** The settings that a dns-persist-01 challenge shows. */
export interface DnsPersistSettings {
  issuerDomainNames: readonly string[]
  /** Draft 02 adds member names to draft 01. */
  draft: '01' | '02'
}

/** Costs of a client address for requests that fail. */
interface FailureBudget {
  /** @throws Problem when the address has used it up */
  require(address: string, provenFrom?: string): void
  charge(address: string, cost: number): void
}

export interface AcmeContext {
  urls: Urls
  settings: AcmeSettings
  nonces: Nonces
  limits: RateLimiter
  budget: FailureBudget
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
