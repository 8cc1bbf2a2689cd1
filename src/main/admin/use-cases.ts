/** Makes the use cases of the Admin API. */

import { AuditExports } from '../../admin/audit/audit-export.ts'
import type { AuditLog } from '../../admin/audit/audit-log.ts'
import { AuditVerifications } from '../../admin/audit/audit-verification.ts'
import { Accounts } from '../../admin/certificates/accounts.ts'
import { Certificates } from '../../admin/certificates/certificates.ts'
import { Orders } from '../../admin/certificates/orders.ts'
import { Renewals } from '../../admin/certificates/renewals.ts'
import type { AdminContext, AdminEvents, AdminPolicy } from '../../admin/context.ts'
import { AllowedIdentifiers } from '../../admin/eab/allowed-identifiers.ts'
import { Credentials } from '../../admin/eab/credentials.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import type { AdminQuestions } from '../../admin/message.ts'
import { openApiDocument } from '../../admin/openapi.ts'
import { CrlLists } from '../../admin/operation/crl-lists.ts'
import { DeadLetters } from '../../admin/operation/dead-letters.ts'
import { EventStatistics } from '../../admin/operation/event-statistics.ts'
import { Issuers, type SigningIssuer } from '../../admin/operation/issuers.ts'
import { NotificationList } from '../../admin/operation/notification-list.ts'
import { readOverview } from '../../admin/operation/overview.ts'
import { Switches } from '../../admin/operation/switches.ts'
import { Terms } from '../../admin/operation/terms.ts'
import { CsrProfiles } from '../../admin/profiles/csr-profiles.ts'
import { HistoryIndexes, INDEX_WAIT_MS } from '../../admin/profiles/history-indexes.ts'
import { checkProfile } from '../../admin/profiles/profile-check.ts'
import { BackendRevocations } from '../../admin/revocations/backend-revocations.ts'
import { BlockedKeys } from '../../admin/revocations/blocked-keys.ts'
import { BulkRevocations } from '../../admin/revocations/bulk-revocations.ts'
import { Turns } from '../../admin/turns.ts'
import { PasswordHasher, type PasswordHashing } from '../../admin/users/passwords.ts'
import { SignIn } from '../../admin/users/sign-in.ts'
import { adminSettings } from '../../settings/admin.ts'
import { eabSecretBox } from '../../settings/eab-secret.ts'
import { renewalPolicy, staleCrlAfterMs } from '../../settings/issuance.ts'
import { sharedWork } from '../../shared/lib/caching.ts'
import { sharedBytes } from '../../shared/lib/shared-memory.ts'
import { readWorkers } from '../../store/background-run-store.ts'
import { type DatabasePool, queriesOf } from '../../store/slonik.ts'
import type { AdminThreadData } from '../messages.ts'

interface AdminParts {
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
  const { baseUrl, pages, tokenSecret, tokenExpirySeconds, confirmAbove } = settings
  const policy = policyOf(config)
  const switches = new Switches(db, audit)
  const workers = () => readWorkers(queriesOf(db))
  const crls = new CrlLists({ db, audit, staleAfterMs: policy.staleCrlAfterMs })
  const passwords = new PasswordHasher(hashing)
  // The service reads it once, as its fronts do.
  const box = isCommand ? undefined : eabSecretBox(config)
  const secretBox = isCommand ? () => eabSecretBox(config) : () => box
  const issuers = signingIssuers ?? (async () => (await ask('instance')).issuers)
  let description: Uint8Array | undefined
  return {
    version,
    baseUrl,
    pages,
    policy,
    db,
    audit,
    events,
    ask,
    signingIssuers: issuers,
    secretBox,
    passwords,
    openApi: () => {
      description ??= sharedBytes(JSON.stringify(openApiDocument(ENDPOINTS, { version, baseUrl })))
      return description
    },
    signIn: new SignIn({ db, audit, passwords, tokenSecret, tokenExpirySeconds }),
    switches,
    workers,
    crls,
    terms: new Terms(db, audit, policy.terms),
    overview: sharedWork(
      () => readOverview({ db, crls, switches, workers, instance: () => ask('instance') }),
      OVERVIEW,
    ),
    settings: () => ask('settings'),
    deadLetters: new DeadLetters(db, audit),
    backendRevocations: new BackendRevocations(db, audit),
    statistics: new EventStatistics(db),
    auditExports: new AuditExports(db, audit),
    auditVerifications: new AuditVerifications({
      db,
      key: auditKey,
      rests: !isCommand,
      events: events.auditVerifications,
    }),
    accounts: new Accounts(db, audit),
    certificates: new Certificates({ db, audit, events: events.certificates, renewal: policy.renewal }),
    orders: new Orders(db),
    notifications: new NotificationList(db, audit),
    renewals: new Renewals(audit),
    blockedKeys: new BlockedKeys(db, audit),
    issuers: new Issuers(db, issuers),
    bulkRevocations: new BulkRevocations({ db, audit, events: events.bulkRevocations, confirmAbove }),
    credentials: new Credentials({
      db,
      audit,
      box: secretBox,
      profiles: policy.caProfiles,
      events: events.credentials,
    }),
    identifiers: new AllowedIdentifiers({ db, audit }),
    checkProfile: (data, profileId) => checkProfile(db, data, profileId),
    profileTrials: new Turns(PROFILE_TRIALS),
    csrProfiles: new CsrProfiles({ db, audit, indexes: new HistoryIndexes(db, isCommand ? undefined : INDEX_WAIT_MS) }),
  }
}

function policyOf(config: AdminThreadData['config']): AdminPolicy {
  const { passwordLength, confirmAbove } = adminSettings(config)
  return {
    passwordLength,
    confirmAbove,
    staleCrlAfterMs: staleCrlAfterMs(config),
    renewal: renewalPolicy(config),
    caProfiles: Object.keys(config.ca.profiles),
    terms: config.tos,
  }
}
