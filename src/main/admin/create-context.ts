/** Makes what the handlers of the Admin API work with. */

import { Turns } from '../../admin/admin-application.ts'
import type { AdminQuestions } from '../../admin/admin-message.ts'
import { approvedOperations } from '../../admin/approvals/acts.ts'
import { Approvals } from '../../admin/approvals/approvals.ts'
import { AuditExports } from '../../admin/audit/audit-export.ts'
import type { AuditLog } from '../../admin/audit/audit-log.ts'
import { AuditVerifications } from '../../admin/audit/audit-verification.ts'
import type { AdminContext, AdminEvents, SigningIssuer } from '../../admin/context.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { openApiDocument } from '../../admin/openapi.ts'
import { readOverview } from '../../admin/operation/overview-endpoints.ts'
import { HistoryIndexes, INDEX_WAIT_MS } from '../../admin/profiles/history-indexes.ts'
import { BulkRevocations } from '../../admin/revocations/bulk-revocations.ts'
import { PasswordHasher, type PasswordHashing } from '../../admin/users/passwords.ts'
import { SignIn } from '../../admin/users/sign-in.ts'
import { eabSecretBox } from '../../settings/account-settings.ts'
import { adminSettings } from '../../settings/admin-settings.ts'
import { sharedWork } from '../../shared/lib/caching.ts'
import { createSecretBox } from '../../shared/lib/secret-box.ts'
import { sharedBytes } from '../../shared/lib/shared-memory.ts'
import type { DatabasePool } from '../../store/slonik.ts'
import type { AdminThreadData } from '../messages.ts'
import { adminMail, createOidc, createPasskeys, policyOf } from './configured-parts.ts'

interface AdminParts {
  db: DatabasePool
  audit: AuditLog
  /** @throws Error where there is none */
  auditKey(): Buffer
  events: AdminEvents
  hashing: PasswordHashing
  /** A command waits for what it needs, and reads secrets only for that: signing is stopped without them. */
  isCommand?: true
  /** Absent asks the running instance for its issuers. */
  signingIssuers?: () => Promise<readonly SigningIssuer[]>
  noteRevocations: AdminContext['noteRevocations']
  /** Asks the supervisor. */
  ask<K extends keyof AdminQuestions>(question: K): Promise<AdminQuestions[K]['reply']>
}

/** Separates their key from others of the same secret. */
const APPROVED_REPLIES = 'chancery: replies of approved acts'
/** Each may keep the thread busy for half a second at a stretch. */
const PROFILE_TRIALS = { atOnce: 1, atOnceOfOne: 1, mostOfOne: 8, what: 'trials of CSR profiles', rests: true } as const
/** The application lets no more in at once. */
const MOST_WAITING = 64
/** Many open pages cost as much as one. */
const OVERVIEW = { intervalMs: 500, mostWaiting: MOST_WAITING }

export function createAdminContext(
  { config, version }: Pick<AdminThreadData, 'config' | 'version'>,
  { db, audit, auditKey, events, hashing, isCommand, signingIssuers, noteRevocations, ask }: AdminParts,
): AdminContext {
  const settings = adminSettings(config)
  const { baseUrl, pages, tokenSecret, tokenExpirySeconds, recentSignInSeconds, requireSecondFactor, confirmAbove } =
    settings
  const policy = policyOf(config)
  const passwords = new PasswordHasher(hashing)
  // The service reads it once, as its fronts do.
  const box = isCommand ? undefined : eabSecretBox(config)
  const secretBox = isCommand ? () => eabSecretBox(config) : () => box
  const issuers = signingIssuers ?? (async () => (await ask('instance')).issuers)
  const signIn = new SignIn({
    db,
    audit,
    passwords,
    tokenSecret,
    tokenExpirySeconds,
    recentSignInSeconds,
    requireSecondFactor,
  })
  let description: Uint8Array | undefined
  const context: AdminContext = {
    version,
    baseUrl,
    pages,
    policy,
    db,
    audit,
    events,
    ask,
    noteRevocations,
    signingIssuers: issuers,
    secretBox,
    passwords,
    openApi: () => {
      description ??= asJson(openApiDocument(ENDPOINTS, { version, baseUrl }))
      return description
    },
    signIn,
    passkeys: createPasskeys(config, { db, audit, signIn, tokenSecret }),
    oidc: isCommand ? undefined : createOidc(config, { db, audit, signIn, tokenSecret, failed: events.oidc.failed }),
    approvals: new Approvals({
      db,
      audit,
      operations: approvedOperations(ENDPOINTS, () => context),
      expireAfterHours: policy.approvals.expireAfterHours,
      box: () => createSecretBox(tokenSecret, APPROVED_REPLIES),
    }),
    overview: sharedWork(async () => asJson(await readOverview({ db, policy, ask, version })), OVERVIEW),
    auditExports: new AuditExports(db, audit),
    auditVerifications: new AuditVerifications({
      db,
      key: auditKey,
      rests: !isCommand,
      events: events.auditVerifications,
    }),
    bulkRevocations: new BulkRevocations({
      db,
      audit,
      events: events.bulkRevocations,
      noteRevocations,
      confirmAbove,
      approvalAbove: policy.approvals.bulkRevocationAbove,
    }),
    mail: adminMail(config),
    profileTrials: new Turns(PROFILE_TRIALS),
    historyIndexes: new HistoryIndexes(db, isCommand ? undefined : INDEX_WAIT_MS),
  }
  return context
}

const asJson = (body: object) => sharedBytes(JSON.stringify(body))
