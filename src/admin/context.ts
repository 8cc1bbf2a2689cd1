/** What the handlers of the Admin API work with. */

import type { WorkersStatus } from '../domain/background-run.ts'
import type { AdminQuestions } from '../main/messages.ts'
import type { Accounts } from '../services/admin/accounts.ts'
import type { AllowedIdentifiers } from '../services/admin/allowed-identifiers.ts'
import type { ApiTokens } from '../services/admin/api-tokens.ts'
import type { AuditLog } from '../services/admin/audit-log.ts'
import type { AuditReader } from '../services/admin/audit-reader.ts'
import type { AuditVerifications } from '../services/admin/audit-verification.ts'
import type { BackendRevocations } from '../services/admin/backend-revocations.ts'
import type { BlockedKeys } from '../services/admin/blocked-keys.ts'
import type { BulkRevocations } from '../services/admin/bulk-revocations.ts'
import type { Certificates } from '../services/admin/certificates.ts'
import type { Credentials } from '../services/admin/credentials.ts'
import type { CrlLists } from '../services/admin/crl-lists.ts'
import type { CsrProfiles } from '../services/admin/csr-profiles.ts'
import type { DeadLetters } from '../services/admin/dead-letters.ts'
import type { EventStatistics } from '../services/admin/event-statistics.ts'
import type { Issuers } from '../services/admin/issuers.ts'
import type { NotificationList } from '../services/admin/notifications.ts'
import type { Orders } from '../services/admin/orders.ts'
import type { Overview } from '../services/admin/overview.ts'
import type { CheckProfile } from '../services/admin/profile-check.ts'
import type { Renewals } from '../services/admin/renewals.ts'
import type { SignIn } from '../services/admin/sign-in.ts'
import type { Switches } from '../services/admin/switches.ts'
import type { Terms } from '../services/admin/terms.ts'
import type { Turns } from '../services/admin/turns.ts'
import type { Users } from '../services/admin/users.ts'

export interface PageSettings {
  defaultSize: number
  maxSize: number
}

export interface AdminContext {
  version: string
  /** Absolute, of the base path. */
  baseUrl: string
  pages: PageSettings
  /** The description of the interface (`openapi.ts`) as JSON, in shared memory. */
  openApi(): Uint8Array
  audit: AuditLog
  auditReader: AuditReader
  auditVerifications: AuditVerifications
  signIn: SignIn
  tokens: ApiTokens
  users: Users
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
