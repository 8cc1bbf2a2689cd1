/** Makes the use cases of the Admin API. */

import type { AdminQuestions, AdminThreadData } from '../main/messages.ts'
import { Accounts } from '../services/admin/accounts.ts'
import { AllowedIdentifiers } from '../services/admin/allowed-identifiers.ts'
import { ApiTokens } from '../services/admin/api-tokens.ts'
import type { AuditLog } from '../services/admin/audit-log.ts'
import { AuditReader } from '../services/admin/audit-reader.ts'
import { type AuditVerificationEvents, AuditVerifications } from '../services/admin/audit-verification.ts'
import { BackendRevocations } from '../services/admin/backend-revocations.ts'
import { BlockedKeys } from '../services/admin/blocked-keys.ts'
import { type BulkRevocationEvents, BulkRevocations } from '../services/admin/bulk-revocations.ts'
import { Certificates } from '../services/admin/certificates.ts'
import { type CredentialEvents, Credentials } from '../services/admin/credentials.ts'
import { CrlLists } from '../services/admin/crl-lists.ts'
import { CsrProfiles } from '../services/admin/csr-profiles.ts'
import { DeadLetters } from '../services/admin/dead-letters.ts'
import { EventStatistics } from '../services/admin/event-statistics.ts'
import { HistoryIndexes, INDEX_WAIT_MS } from '../services/admin/history-indexes.ts'
import { Issuers, type SigningIssuer } from '../services/admin/issuers.ts'
import { NotificationList } from '../services/admin/notifications.ts'
import { Orders } from '../services/admin/orders.ts'
import { readOverview } from '../services/admin/overview.ts'
import { PasswordHasher, type PasswordHashing } from '../services/admin/passwords.ts'
import { checkProfile } from '../services/admin/profile-check.ts'
import { Renewals } from '../services/admin/renewals.ts'
import { SignIn } from '../services/admin/sign-in.ts'
import { Switches } from '../services/admin/switches.ts'
import { Terms } from '../services/admin/terms.ts'
import { Turns } from '../services/admin/turns.ts'
import { Users } from '../services/admin/users.ts'
import type { RevocationEvents } from '../services/revocation.ts'
import { adminSettings } from '../settings/admin.ts'
import { eabSecretBox } from '../settings/eab-secret.ts'
import { renewalPolicy, staleCrlAfterMs } from '../settings/issuance.ts'
import { sharedWork } from '../shared/lib/caching.ts'
import { sharedBytes } from '../shared/lib/shared-memory.ts'
import { readWorkers } from '../store/background-run-store.ts'
import { type DatabasePool, queriesOf } from '../store/slonik.ts'
import type { AdminContext } from './context.ts'
import { ENDPOINTS } from './endpoints.ts'
import { openApiDocument } from './openapi.ts'

/** What is told to whom reports: log and metrics of the service. */
export interface AdminEvents {
  certificates: RevocationEvents
  bulkRevocations: BulkRevocationEvents
  credentials: CredentialEvents
  auditVerifications: AuditVerificationEvents
}

export interface AdminParts {
  db: DatabasePool
  audit: AuditLog
  /** @throws Error where there is none */
  auditKey(): Buffer
  events: AdminEvents
  hashing: PasswordHashing
  /** It waits for what it needs, and reads secrets only for that: signing is stopped without them. */
  isCommand?: true
  /** Absent asks the running instance for its issuers. */
  signingIssuers?: () => Promise<readonly SigningIssuer[]>
  /** Of the supervisor. */
  ask<K extends keyof AdminQuestions>(question: K): Promise<AdminQuestions[K]['reply']>
}

/** Each may keep the thread busy for half a second at a stretch. */
const PROFILE_TRIALS = { atOnce: 1, atOnceOfOne: 1, mostOfOne: 8, what: 'trials of CSR profiles', rests: true } as const
/** The application lets no more in at once. */
const MOST_WAITING = 64
/** Many open pages cost as much as one. */
const OVERVIEW = { intervalMs: 500, mostWaiting: MOST_WAITING }

export function createAdminContext(
  { config, version }: Pick<AdminThreadData, 'config' | 'version'>,
  { db, audit, auditKey, events, hashing, isCommand, signingIssuers, ask }: AdminParts,
): AdminContext {
  const settings = adminSettings(config)
  const { baseUrl, pages, tokenSecret, tokenExpirySeconds, passwordLength, confirmAbove } = settings
  const switches = new Switches(db, audit)
  const workers = () => readWorkers(queriesOf(db))
  const crls = new CrlLists({ db, audit, staleAfterMs: staleCrlAfterMs(config) })
  const passwords = new PasswordHasher(hashing)
  // The service reads it once, as its fronts do.
  const box = isCommand ? undefined : eabSecretBox(config)
  let description: Uint8Array | undefined
  return {
    version,
    baseUrl,
    pages,
    audit,
    openApi: () => {
      description ??= sharedBytes(JSON.stringify(openApiDocument(ENDPOINTS, { version, baseUrl })))
      return description
    },
    signIn: new SignIn({ db, audit, passwords, tokenSecret, tokenExpirySeconds }),
    users: new Users({ db, audit, passwords, passwordLength }),
    switches,
    workers,
    crls,
    terms: new Terms(db, audit, config.tos),
    overview: sharedWork(
      () => readOverview({ db, crls, switches, workers, instance: () => ask('instance') }),
      OVERVIEW,
    ),
    settings: () => ask('settings'),
    deadLetters: new DeadLetters(db, audit),
    backendRevocations: new BackendRevocations(db, audit),
    statistics: new EventStatistics(db),
    tokens: new ApiTokens(db, audit),
    auditReader: new AuditReader(db, audit),
    auditVerifications: new AuditVerifications({
      db,
      key: auditKey,
      rests: !isCommand,
      events: events.auditVerifications,
    }),
    accounts: new Accounts(db, audit),
    certificates: new Certificates({ db, audit, events: events.certificates, renewal: renewalPolicy(config) }),
    orders: new Orders(db),
    notifications: new NotificationList(db, audit),
    renewals: new Renewals(audit),
    blockedKeys: new BlockedKeys(db, audit),
    issuers: new Issuers(db, signingIssuers ?? (async () => (await ask('instance')).issuers)),
    bulkRevocations: new BulkRevocations({ db, audit, events: events.bulkRevocations, confirmAbove }),
    credentials: new Credentials({
      db,
      audit,
      box: isCommand ? () => eabSecretBox(config) : () => box,
      profiles: Object.keys(config.ca.profiles),
      events: events.credentials,
    }),
    identifiers: new AllowedIdentifiers({ db, audit }),
    checkProfile: (data, profileId) => checkProfile(db, data, profileId),
    profileTrials: new Turns(PROFILE_TRIALS),
    csrProfiles: new CsrProfiles({ db, audit, indexes: new HistoryIndexes(db, isCommand ? undefined : INDEX_WAIT_MS) }),
  }
}
