/** What the handlers of the Admin API work with. */

import type { DatabasePool } from 'slonik'
import type { WorkersStatus } from '../domain/background-run.ts'
import type { WindowPolicy } from '../domain/renewal-window.ts'
import type { RevocationEvents } from '../services/revocation.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import type { AuditExports } from './audit/audit-export.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { AuditVerificationEvents, AuditVerifications } from './audit/audit-verification.ts'
import type { Accounts } from './certificates/accounts.ts'
import type { Certificates } from './certificates/certificates.ts'
import type { Orders } from './certificates/orders.ts'
import type { Renewals } from './certificates/renewals.ts'
import type { AllowedIdentifiers } from './eab/allowed-identifiers.ts'
import type { CredentialEvents, Credentials } from './eab/credentials.ts'
import type { AdminQuestions } from './message.ts'
import type { CrlLists } from './operation/crl-lists.ts'
import type { DeadLetters } from './operation/dead-letters.ts'
import type { EventStatistics } from './operation/event-statistics.ts'
import type { Issuers, SigningIssuer } from './operation/issuers.ts'
import type { NotificationList } from './operation/notification-list.ts'
import type { Overview } from './operation/overview.ts'
import type { Switches } from './operation/switches.ts'
import type { Terms, TermsSettings } from './operation/terms.ts'
import type { CsrProfiles } from './profiles/csr-profiles.ts'
import type { CheckProfile } from './profiles/profile-check.ts'
import type { BackendRevocations } from './revocations/backend-revocations.ts'
import type { BlockedKeys } from './revocations/blocked-keys.ts'
import type { BulkRevocationEvents, BulkRevocations } from './revocations/bulk-revocations.ts'
import type { Turns } from './turns.ts'
import type { PasswordHasher } from './users/passwords.ts'
import type { SignIn } from './users/sign-in.ts'

export interface PageSettings {
  defaultSize: number
  maxSize: number
}

/** What the configuration says about administration. */
export interface AdminPolicy {
  /** Characters of a generated password. */
  passwordLength: number
  /** A bulk revocation of more certificates needs a confirmation. */
  confirmAbove: number
  /** After how long without a new list a CRL is stale; undefined when none is published. */
  staleCrlAfterMs: number | undefined
  /** For the window that renewal information gives. */
  renewal: WindowPolicy
  /** Names of `ca.profiles`. */
  caProfiles: readonly string[]
  terms: TermsSettings
}

/** What is told to log and metrics of the service. */
export interface AdminEvents {
  certificates: RevocationEvents
  bulkRevocations: BulkRevocationEvents
  credentials: CredentialEvents
  auditVerifications: AuditVerificationEvents
}

/** The resources of the handlers, and the few objects that keep a state from request to request. */
export interface AdminContext {
  version: string
  /** Absolute, of the base path. */
  baseUrl: string
  pages: PageSettings
  policy: AdminPolicy
  db: DatabasePool
  audit: AuditLog
  events: AdminEvents
  /** What only the supervisor can tell. */
  ask<K extends keyof AdminQuestions>(question: K): Promise<AdminQuestions[K]['reply']>
  /** Issuers that sign now. */
  signingIssuers(): Promise<readonly SigningIssuer[]>
  /** Seals the HMAC keys of binding credentials; undefined without a configured secret. */
  secretBox(): SecretBox | undefined
  /** The description of the interface (`openapi.ts`) as JSON, in shared memory. */
  openApi(): Uint8Array
  passwords: PasswordHasher
  signIn: SignIn
  auditExports: AuditExports
  auditVerifications: AuditVerifications
  credentials: Credentials
  identifiers: AllowedIdentifiers
  csrProfiles: CsrProfiles
  checkProfile: CheckProfile
  /** Turns by user, for requests that run the expressions of CSR profiles. */
  profileTrials: Turns
  switches: Switches
  terms: Terms
  overview(): Promise<Overview>
  settings(): Promise<AdminQuestions['settings']['reply']>
  workers(): Promise<WorkersStatus>
  deadLetters: DeadLetters
  statistics: EventStatistics
  crls: CrlLists
  bulkRevocations: BulkRevocations
  backendRevocations: BackendRevocations
  accounts: Accounts
  certificates: Certificates
  orders: Orders
  notifications: NotificationList
  renewals: Renewals
  blockedKeys: BlockedKeys
  issuers: Issuers
}
