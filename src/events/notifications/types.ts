/** Which event becomes which notification, and with which values. Values hold no secret. */

import type { EventData, EventKind, OccurredEvent } from '../../domain/event.ts'
import type { NotificationType, TemplateValues } from '../../domain/notification.ts'
import type { Holder } from '../../store/notification-store.ts'

export type Addressee = 'holder' | 'administrators' | 'user' | 'contacts'

interface Notice {
  type: NotificationType
  /** Whom to write to: the account's contacts, all administrators, the user or the contacts of the event. */
  to: Addressee
  values(data: EventData, holder: Holder | undefined, occurredAt: Date): TemplateValues
}

const NAMES_IN_SUMMARY = 3
/** A longer one leaves no room in the subject for how many more there are. */
const MAX_SUMMARY = 120
const DAY_MS = 86_400_000

/** Undefined for an administrator's action, and for a certificate, that nobody is told of. */
export function noticeOf({ kind, data }: Pick<OccurredEvent, 'kind' | 'data'>): Notice | undefined {
  if (kind === 'admin.action') return ADMIN_ACTIONS[String(data.action)]
  // Imported: it was issued elsewhere, and its holder has it. Revoked: its order has failed, which the holder was told.
  if (kind === 'certificate.issuance' && (data.order_id === null || data.revoked_at !== undefined)) return undefined
  return NOTICES[kind]
}

const holder = (type: NotificationType, values: Notice['values']): Notice => ({ type, to: 'holder', values })

const NOTICES: Partial<Record<EventKind, Notice>> = {
  'certificate.issuance': holder('delivery_succeeded', (data) => ({
    ...named(namesOf(data)),
    ...texts(data, 'serial_number', 'not_after', 'order_id', 'certificate_id'),
  })),
  'certificate.issuance_failed': holder('delivery_failed', withError),
  'certificate.revocation': holder('revocation_succeeded', (data) => ({
    ...named(namesOf(data)),
    ...texts(data, 'serial_number', 'reason'),
  })),
  'certificate.revocation_failed': {
    type: 'revocation_failed',
    to: 'administrators',
    values: (data) => ({ ...withError(data), ...texts(data, 'serial_number', 'reason') }),
  },
  'certificate.expiration': holder('expiration_warning', (data, _account, occurredAt) => ({
    ...named(namesOf(data)),
    ...texts(data, 'certificate_id', 'serial_number', 'not_after'),
    warning_days: Number(data.warning_days),
    days_left: daysLeft(data, occurredAt),
  })),
  'account.registration': holder('registration_succeeded', (data) => ({
    ...texts(data, 'account_id'),
    contacts: listOf(data.contacts),
  })),
  'account.registration_failed': {
    type: 'registration_failed',
    to: 'contacts',
    values: (data) => ({ contacts: listOf(data.contacts), error_detail: detailOf(data) }),
  },
  'account.deactivation': holder('account_deactivated', (data) => ({
    ...texts(data, 'account_id'),
    deactivated_authorizations: Number(data.deactivated_authorizations ?? 0),
  })),
  'account.revocation': holder('account_revoked', (data, account) => ({
    ...texts(data, 'account_id'),
    ...whyRevoked(data, account),
    deactivated_authorizations: Number(data.deactivated_authorizations ?? 0),
  })),
  'account.key_change': holder('key_rollover_succeeded', (data) =>
    texts(data, 'account_id', 'old_thumbprint', 'new_thumbprint'),
  ),
  'authorization.deactivation': holder('authorization_deactivated', (data) => ({
    ...texts(data, 'authorization_id', 'identifier', 'identifier_type'),
    invalidated_orders: listOf(data.invalidated_orders).length,
  })),
  'order.rejected': holder('order_rejected', (data) => {
    const rejected = namesOf(data, 'rejected_identifiers')
    const summary = rejected.length === 0 ? 'names that are not allowed' : summaryOf(rejected)
    return { rejected_identifiers: rejected, summary, error_detail: detailOf(data) }
  }),
  'order.quota_exceeded': holder('order_quota_exceeded', (data) => ({
    quota_limit: Number(data.quota_limit ?? data.limit ?? 0),
    quota: text(data.quota ?? 'orders'),
    attempted_identifiers: namesOf(data, 'attempted_identifiers'),
  })),
  'order.csr_refused': holder('csr_validation_failed', withError),
  'order.recovered': holder('order_stale_recovered', (data) => ({
    ...named(namesOf(data)),
    ...texts(data, 'order_id'),
  })),
  'challenge.on_failure': holder('challenge_failed', (data) => ({
    identifier: text(data.identifier ?? data.identifier_value),
    ...texts(data, 'challenge_type'),
    error_detail: detailOf(data),
  })),
}

const ofUser = (type: NotificationType): Notice => ({
  type,
  to: 'user',
  values: (data) => texts(data, 'username', 'email', 'role', 'created_by'),
})

const ADMIN_ACTIONS: Record<string, Notice> = {
  'user.create': ofUser('admin_user_created'),
  'user.reset_password': ofUser('admin_password_reset'),
}

export const NOTIFIED_KINDS: readonly EventKind[] = [...(Object.keys(NOTICES) as EventKind[]), 'admin.action']

/** Of an account without a contact nobody could be told. */
export const HOLDER_KINDS = NOTIFIED_KINDS.filter((kind) => NOTICES[kind]?.to === 'holder')

function withError(data: EventData): TemplateValues {
  return { ...named(namesOf(data)), ...texts(data, 'order_id'), error_detail: detailOf(data) }
}

/** Time passes between the search of a round and its events. */
const ROUND_MS = 60_000

/**
 * The threshold's days may be wrong: a certificate may live shorter, and the service may have been away. More than
 * one day counts as two, so that the warning for the last day differs.
 */
function daysLeft({ not_after, warning_days }: EventData, occurredAt: Date): string {
  const leftMs = Date.parse(String(not_after)) - occurredAt.getTime()
  const days = Math.round(leftMs / DAY_MS)
  if (days < 1) return 'less than a day'
  const isOneDay = leftMs <= (Number(warning_days) === 1 ? DAY_MS : DAY_MS - ROUND_MS)
  return isOneDay ? '1 day' : `${Math.max(2, days)} days`
}

/** `reason` for programs that read it, `cause` for people. */
function whyRevoked(data: EventData, account: Holder | undefined): TemplateValues {
  const kid = account?.revoked_kid
  if (data.reason) return { reason: text(data.reason), cause: text(data.reason) }
  return kid
    ? { reason: `eab_revoked:${kid}`, cause: `the credential ${text(kid)} that it was registered with was revoked` }
    : { reason: 'revoked', cause: 'the operator revoked it' }
}

/** What the client was told; an attempt's `error` is for the operator and may say more. */
function detailOf({ error_detail, problem, error }: EventData): string {
  const found = error_detail ?? problem ?? error
  if (typeof found === 'object' && found !== null && 'detail' in found) return text(found.detail)
  return text(found ?? 'no reason was given')
}

/** Texts, or identifiers with a value. */
function namesOf(data: EventData, ...members: string[]): string[] {
  const found = [...members, 'domains', 'identifiers'].map((member) => data[member]).find(Array.isArray)
  return listOf(found)
}

function listOf(value: unknown): string[] {
  if (!Array.isArray(value)) return []
  return value.map((one) => text(typeof one === 'object' && one !== null && 'value' in one ? one.value : one))
}

const named = (domains: string[]) => ({ domains, summary: summaryOf(domains) })

/** For a subject: "and 1 more" would not be shorter than most names. */
function summaryOf(names: readonly string[]): string {
  let shown = names.length === NAMES_IN_SUMMARY + 1 ? names.length : Math.min(names.length, NAMES_IN_SUMMARY)
  while (shown > 1 && names.slice(0, shown).join(', ').length > MAX_SUMMARY) shown--
  const rest = names.length - shown
  return names.slice(0, shown).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}

const texts = <K extends string>(data: EventData, ...members: K[]) =>
  Object.fromEntries(members.map((member) => [member, text(data[member])])) as Record<K, string>

/** Control characters of a stranger's text would end lines of a mail. */
function text(value: unknown): string {
  return value === undefined || value === null ? '' : String(value).replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')
}
