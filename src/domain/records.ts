/** The aggregates as the services see them: rows already decoded, statuses already derived. */

import type { ChallengeType } from '../shared/protocol/challenge.ts'
import type { ExternalAccountBinding } from '../shared/protocol/external-account-binding.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'
import type { AccountStatus } from './account-state.ts'
import type { AuthorizationStatus, ChallengeStatus } from './authorization-state.ts'
import type { OrderStatus } from './order-state.ts'

export interface Account {
  id: string
  status: AccountStatus
  /** Canonical JWK and its thumbprint. */
  jwk: string
  thumbprint: string
  /** Rises with every key change; a statement that names an old one finds no account. */
  keyVersion: number
  contacts: readonly string[]
  termsAgreed: boolean
  /** `tos.version` at its last agreement; absent when it agreed to none, or before there were versions. */
  termsVersion?: string
  /** The JWS it was registered with, when it is bound to an external account. */
  externalAccountBinding?: ExternalAccountBinding['jws']
  /** Given by its credential, for good: the CA profiles it may order, and the networks from which names are pre-approved. */
  allowedProfiles?: readonly string[]
  preapprovedNetworks?: readonly string[]
}

export interface Order {
  id: string
  accountId: string
  status: OrderStatus
  identifiers: readonly Identifier[]
  authorizationIds: readonly string[]
  expiresAt: Date
  notBefore?: Date
  notAfter?: Date
  profile: string
  /** certID of the certificate it replaces (RFC 9773 §5). */
  replaces?: string
  /** Its certificate does not count towards the limits of its names: it renews one that was due (RFC 9773 §5). */
  isExempt?: boolean
  error?: ProblemDocument
  certificateId?: string
  /** CSR profile assigned to its account, as of when the order was read. */
  csrProfileId?: string
  /** While it is open, the oldest CAA check among its authorizations of DNS names; absent where one of them was never checked. */
  caaCheckedAt?: Date
}

export interface Authorization {
  id: string
  accountId: string
  /** Without the `*.` of a wildcard. */
  identifier: Identifier
  wildcard: boolean
  status: AuthorizationStatus
  expiresAt: Date
  token: string
  offered: readonly ChallengeType[]
  /** Only challenges that have been triggered; the others are pending. */
  attempts: Partial<Record<ChallengeType, ChallengeAttempt>>
}

/** Also the JSON the database keeps. */
export interface ChallengeAttempt {
  status: ChallengeStatus
  /** Finished or failed validation attempts so far. */
  tries: number
  /** Of the account key that triggered it, until it is decided: the key may change before the last attempt. */
  thumbprint?: string
  validated?: string
  /** When the CAA records permitted it; absent where they were not asked. */
  caaChecked?: string
  /** Valid without a look at anything (`challenges.auto_accept`): it showed no control. */
  accepted?: true
  error?: ProblemDocument
}

export interface Certificate {
  id: string
  accountId: string | undefined
  orderId: string | undefined
  serialNumber: string
  issuerFingerprint: string
  der: Buffer
  notBefore: Date
  notAfter: Date
  revokedAt: Date | undefined
}
