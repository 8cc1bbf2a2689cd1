/** The parts that handlers of the Admin API work with. */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import type { ApprovalPolicy } from '../domain/approval.ts'
import type { WindowPolicy } from '../domain/renewal-window.ts'
import type { MailTemplates } from '../events/notifications/templates.ts'
import type { NoteRevocations } from '../services/reconcile/revocation-notes.ts'
import type { RevocationEvents } from '../services/revocation.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import type { AdminQuestions } from './admin-message.ts'
import type { Approvals } from './approvals/approvals.ts'
import type { AuditExports } from './audit/audit-export.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { AuditVerificationEvents, AuditVerifications } from './audit/audit-verification.ts'
import type { HistoryIndexes } from './profiles/history-indexes.ts'
import type { BulkRevocationEvents, BulkRevocations } from './revocations/bulk-revocations.ts'
import type { OidcSignIn } from './users/oidc-sign-in.ts'
import type { Passkeys } from './users/passkeys.ts'
import type { PasswordHasher } from './users/passwords.ts'
import type { SignIn } from './users/sign-in.ts'

export interface PageSettings {
  defaultSize: number
  maxSize: number
}

/** An issuer that a signer uses now. */
export interface SigningIssuer {
  id: string
  certificate: Uint8Array
}

/** The section `tos` of the configuration. */
export interface TermsSettings {
  url: string | null
  version: string | null
  require_agreement: boolean
}

/** The configuration of administration. */
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
  approvals: ApprovalPolicy
}

/** Mails that administrators send themselves. */
export interface AdminMail {
  /** Whether mail is sent at all (`smtp.enabled` and `notifications.enabled`). */
  isEnabled: boolean
  serverUrl: string
  templates(): MailTemplates
}

/** Events for log and metrics of the service. */
export interface AdminEvents {
  certificates: RevocationEvents
  bulkRevocations: BulkRevocationEvents
  credentials: { accountsRevoked(count: number): void }
  oidc: { failed(reason: string): void }
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
  /** Asks the supervisor, which alone can answer. */
  ask<K extends keyof AdminQuestions>(question: K): Promise<AdminQuestions[K]['reply']>
  /** The signer hears of revocations of its certificates after their commit. */
  noteRevocations: NoteRevocations
  /** Issuers that sign now. */
  signingIssuers(): Promise<readonly SigningIssuer[]>
  /** Seals the HMAC keys of binding credentials; undefined without a configured secret. */
  secretBox(): SecretBox | undefined
  /** The description of the interface (`openapi.ts`) as JSON, in shared memory. */
  openApi(): Uint8Array
  passwords: PasswordHasher
  signIn: SignIn
  /** Undefined where no OpenID Connect provider is configured. */
  oidc: OidcSignIn | undefined
  /** Undefined where the console is at an address, to which no passkey can be bound. */
  passkeys: Passkeys | undefined
  approvals: Approvals
  auditExports: AuditExports
  auditVerifications: AuditVerifications
  historyIndexes: HistoryIndexes
  /** Turns by user, for requests that run the expressions of CSR profiles. */
  profileTrials: { run<T>(userId: string, work: () => Promise<T>): Promise<T> }
  /** The reply of `/overview` as JSON, in shared memory. All who ask at one time share it. */
  overview(): Promise<Uint8Array>
  bulkRevocations: BulkRevocations
  mail: AdminMail
}

/** By which an act is described, also within the transaction of its decision. */
export type ActMeans = Pick<AdminContext, 'policy'> & { db: CommonQueryMethods }
