/** Accounts, orders and authorizations as the services see them: rows decoded, statuses derived. */

import type { ChallengeType } from '../shared/protocol/challenge.ts'
import type { ExternalAccountBinding } from '../shared/protocol/external-account-binding.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'
import type { AccountStatus, AuthorizationStatus, ChallengeStatus, OrderStatus } from './states.ts'

export interface Account {
  id: string
  status: AccountStatus
  /** Canonical JWK and its thumbprint. */
  jwk: string
  thumbprint: string
  /** Rises with every key change; a statement with an old version finds no account. */
  keyVersion: number
  contacts: readonly string[]
  termsAgreed: boolean
  /** `tos.version` at its last agreement; absent without an agreement, or from before versions. */
  termsVersion?: string
  /** The JWS of its registration, if it is bound to an external account. */
  externalAccountBinding?: ExternalAccountBinding['jws']
  /** Fixed by its credential: the CA profiles it may order, and the networks that pre-approve names. */
  allowedProfiles?: readonly string[]
  preapprovedNetworks?: readonly string[]
}

/** Names an account that this service has at an upstream CA. */
export interface UpstreamAccountName {
  directoryUrl: string
  email: string
}

export interface StoredUpstreamAccount {
  id: string
  /** PKCS #8 DER, sealed under `id`. */
  sealedKey: Buffer
  /** Undefined until registered. */
  url: string | undefined
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
  /** Limits of its names do not count its certificate, because it renews one that was due (RFC 9773 §5). */
  isExempt?: boolean
  error?: ProblemDocument
  certificateId?: string
  /** CSR profile of its account when the order was read. */
  csrProfileId?: string
  /** While open: the oldest CAA check among its authorizations of DNS names. Absent if any was never checked. */
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
  /** Triggered challenges only; the others are pending. */
  attempts: Partial<Record<ChallengeType, ChallengeAttempt>>
}

/** Also the JSON the database keeps. */
export interface ChallengeAttempt {
  status: ChallengeStatus
  /** Finished or failed validation attempts so far. */
  tries: number
  /** Thumbprint of the triggering account key until the decision; the key may change before the last attempt. */
  thumbprint?: string
  validated?: string
  /** When CAA records permitted it; absent where CAA was not checked. */
  caaChecked?: string
  /** Valid without a check (`challenges.auto_accept`), so it proved no control. */
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
