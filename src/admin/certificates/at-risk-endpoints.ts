/** `/at-risk`: certificates whose renewal window is open and that nobody has renewed. */

import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import type { EventData } from '../../domain/event.ts'
import { RENEWAL_REQUESTS } from '../../domain/notification.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { RENEWAL_ATTEMPTS, renewalAttempt } from '../../domain/renewal-window.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { uuidTime } from '../../shared/lib/uuid.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { AdminContext, AdminPolicy } from '../context.ts'
import { type RenewalMail, recordOwnerMails, renewalMails } from '../owner-mails.ts'
import { placeParameters, readAtPlace } from '../pages.ts'
import { AT_RISK_FILTERS } from '../resources/certificates.ts'
import {
  flagParameter,
  futureInstant,
  line,
  parametersOf,
  serialNumber,
  time,
  timeOrNull,
  timestamp,
} from '../schemas.ts'
import { accountNameMember, activityBody, activityMembers } from './account-list.ts'
import { Certificate, certificateBodies } from './certificate-endpoints.ts'
import { listCertificates } from './certificate-list.ts'
import {
  type Circumstances,
  circumstancesOf,
  type Mute,
  muteCertificates,
  unmuteCertificates,
} from './renewal-window-store.ts'

const AtRisk = z
  .strictObject({
    ...Certificate.shape,
    ...activityMembers(),
    attempt: z.enum(RENEWAL_ATTEMPTS).meta({
      description:
        'Since the window opened, about one of its names: nothing, an order, or a failure. Among the last 200 orders and the last 50 failures of the account.',
    }),
    last_order: z.strictObject({ id: z.uuid(), created_at: timestamp() }).nullable(),
    last_failure: z
      .strictObject({ kind: z.string(), occurred_at: timestamp(), data: z.record(z.string(), z.unknown()) })
      .nullable(),
    mute: z
      .strictObject({
        reason: z.string(),
        muted_by: z.string(),
        muted_at: timestamp(),
        muted_until: timestamp().nullable().meta({ description: 'Null: as long as it is at risk.' }),
      })
      .nullable(),
  })
  .meta({ id: 'AtRisk' })

const MOST_CHOSEN = 2_000
const serialNumbers = () => boundedArray(serialNumber(), MOST_CHOSEN, 1)
/** The mails are shown one by one. */
const MOST_TO_NOTIFY = 200
const Notified = z
  .strictObject({
    enabled: z.boolean().meta({ description: 'Whether mail is sent at all.' }),
    certificates: z.int().meta({ description: 'Those that are not passed over.' }),
    not_at_risk: z.int().meta({ description: 'Those that are: unknown, ended, renewed, or not due yet.' }),
    mails: z.int(),
    without_contact: z.int().meta({ description: 'Accounts that cannot be written to.' }),
    owners: z.array(
      z.strictObject({
        account_id: z.uuid(),
        account_name: accountNameMember(),
        recipients: z.array(z.string()),
        passed_over: z.array(z.string()).meta({
          description: `Contacts that have had ${RENEWAL_REQUESTS.most} of these mails within 24 hours. Without them and recipients, it cannot be written to.`,
        }),
        certificates: z.int(),
        subject: z.string(),
        text: z.string(),
      }),
    ),
  })
  .meta({ id: 'RenewalMails' })
const openNow = ({ renewal: { renewalPercentage } }: AdminPolicy) => ({ renewalPercentage, now: new Date() })
const NOT_RENEWED = { status: 'active', renewed: false } as const
const Changed = z.strictObject({ certificates: z.int() })

export const AT_RISK = endpointGroup('Renewals', {
  listAtRisk: endpoint({
    route: 'GET /at-risk',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({
      ...parametersOf(AT_RISK_FILTERS),
      muted: flagParameter().default(false).meta({ description: AT_RISK_FILTERS.muted.says }),
      ...placeParameters(),
    }),
    reply: { status: 200, schema: z.array(AtRisk) },
    async handle({ query, author }, { db, pages, policy }) {
      const { limit, offset, cursor, ...chosen } = query
      const filter = { ...chosen, ...NOT_RENEWED, windowOpen: openNow(policy), scope: scopeOf(author) }
      const { rows, ...page } = await readAtPlace({ limit, offset, cursor }, pages, (after, most) =>
        listCertificates(db, filter, after, most, 'not_after'),
      )
      const certificates = await certificateBodies({ db, policy }, rows)
      const circumstances = await circumstancesOf(
        db,
        certificates.map(({ id, renewal, not_before }) => ({
          id,
          openedAt: new Date(renewal?.window_start ?? not_before),
        })),
      )
      const body = certificates.map((certificate) => ({
        ...certificate,
        ...circumstancesBody(circumstances.get(certificate.id)),
      }))
      return { body, ...page }
    },
  }),
  muteAtRisk: endpoint({
    route: 'POST /at-risk/mutes',
    permission: 'advise_renewal',
    scope: 'accounts',
    body: z.strictObject({
      serial_numbers: serialNumbers(),
      reason: line(500),
      until: futureInstant().optional().meta({ description: 'Without it, as long as they are at risk.' }),
    }),
    reply: { status: 200, schema: Changed },
    audit: 'renewal.mute',
    async handle({ body: { serial_numbers, reason, until }, author }, { audit }) {
      const mute = { reason, mutedBy: author.username, until }
      return { body: { certificates: await muteAll(audit, author, serial_numbers, scopeOf(author), mute) } }
    },
  }),
  unmuteAtRisk: endpoint({
    route: 'DELETE /at-risk/mutes',
    permission: 'advise_renewal',
    scope: 'accounts',
    body: z.strictObject({ serial_numbers: serialNumbers() }),
    reply: { status: 200, schema: Changed },
    audit: 'renewal.unmute',
    handle: async ({ body, author }, { audit }) => ({
      body: { certificates: await unmuteAll(audit, author, body.serial_numbers, scopeOf(author)) },
    }),
  }),
  notifyAtRisk: endpoint({
    route: 'POST /at-risk/notify',
    permission: 'advise_renewal',
    scope: 'accounts',
    body: z.strictObject({
      serial_numbers: boundedArray(serialNumber(), MOST_TO_NOTIFY, 1),
      dry_run: z.boolean().default(false).meta({ description: 'Shows the mails, and sends none.' }),
    }),
    reply: { status: 200, schema: Notified },
    errors: ['conflict'],
    audit: 'renewal.notify',
    async handle({ body: { serial_numbers: serialNumbers, dry_run }, author }, context) {
      const { db, mail, policy } = context
      const found = await renewalMails(db, mail, serialNumbers, scopeOf(author), openNow(policy))
      const certificates = found.reduce((sum, one) => sum + one.serialNumbers.length, 0)
      const told = found.filter(({ recipients }) => recipients.length > 0)
      const mails = dry_run
        ? told.reduce((sum, { recipients }) => sum + recipients.length, 0)
        : await tellOwners(context, author, told)
      return {
        body: {
          enabled: mail.isEnabled,
          certificates,
          not_at_risk: new Set(serialNumbers).size - certificates,
          mails,
          without_contact: found.filter(({ recipients, passedOver }) => recipients.length + passedOver.length === 0)
            .length,
          owners: found.map(ownerBody),
        },
      }
    },
  }),
})

const ownerBody = ({ accountId, accountName, recipients, passedOver, serialNumbers, rendered }: RenewalMail) => ({
  account_id: accountId,
  account_name: accountName,
  recipients,
  passed_over: passedOver,
  certificates: serialNumbers.length,
  subject: rendered.subject,
  text: rendered.text,
})

/** @returns how many mails were recorded */
function tellOwners(
  { audit, mail }: Pick<AdminContext, 'audit' | 'mail'>,
  actor: Actor,
  found: readonly RenewalMail[],
): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const recorded = await recordOwnerMails(tx, mail, 'renewal_request', found)
    const serialNumbers = found.flatMap((one) => one.serialNumbers)
    if (recorded.length > 0) note('renewal.notify', { ...serialsToNote(serialNumbers), mails: recorded.length })
    return recorded.length
  })
}

/** Replies are copied into tickets, so the token stays out. */
function circumstancesBody(found: Circumstances | undefined) {
  const orderedAt = found?.order_id ? uuidTime(found.order_id) : undefined
  const { token: _, ...data }: Partial<EventData> & { token?: string } = found?.failure_data ?? {}
  const { failure_kind: kind, failed_at: failedAt, reason, muted_by, muted_at, muted_until } = found ?? {}
  return {
    ...activityBody(found),
    attempt: renewalAttempt(orderedAt, failedAt ?? undefined),
    last_order: found?.order_id && orderedAt ? { id: found.order_id, created_at: time(orderedAt) } : null,
    last_failure: kind && failedAt ? { kind, occurred_at: time(failedAt), data } : null,
    mute:
      reason && muted_by && muted_at
        ? { reason, muted_by, muted_at: time(muted_at), muted_until: timeOrNull(muted_until ?? null) }
        : null,
  }
}

const MOST_TOLD = 100

/** Serial numbers as the audit log notes them. */
const serialsToNote = (serialNumbers: readonly string[]) => ({
  serial_numbers: serialNumbers.slice(0, MOST_TOLD),
  certificates: serialNumbers.length,
})

/** @returns how many */
function muteAll(audit: AuditLog, actor: Actor, serials: readonly string[], scope: Scope, mute: Mute): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const muted = await muteCertificates(tx, serials, scope, mute)
    const { reason, until } = mute
    if (muted.length > 0) note('renewal.mute', { ...serialsToNote(muted), reason, until })
    return muted.length
  })
}

/** @returns how many were muted */
function unmuteAll(audit: AuditLog, actor: Actor, serials: readonly string[], scope: Scope): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const unmuted = await unmuteCertificates(tx, serials, scope)
    if (unmuted.length > 0) note('renewal.unmute', serialsToNote(unmuted))
    return unmuted.length
  })
}
