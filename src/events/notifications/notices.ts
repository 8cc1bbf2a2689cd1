/** Which event becomes which notification, and with which values. Values hold no secret. */

import { EVENT_KINDS, type EventData, type EventKind, type EventOf, type OccurredEvent } from '../../domain/event.ts'
import type { NotificationType, TemplateValues } from '../../domain/notification.ts'
import type { Holder } from '../../store/notification-store.ts'

/** Whom to write to: the account's contacts, all administrators, the user of the action, the contacts of the event. */
export type Addressee = 'holder' | 'administrators' | 'user' | 'contacts'

/** Values of the database that only a mail needs. */
export interface Addressed {
  holder?: Holder | undefined
  user?: { username: string; email: string; role: string; createdBy: string } | undefined
}

interface Rule<K extends EventKind> {
  type: NotificationType
  to: Addressee
  /** A mail address that the user has had until this event. */
  formerAddress?: string | undefined
  values(event: EventOf<K>, about: Addressed): TemplateValues
}

interface Notice {
  type: NotificationType
  to: Addressee
  formerAddress: string | undefined
  values(about: Addressed): TemplateValues
}

const NAMES_IN_SUMMARY = 3
/** A longer one leaves no room in the subject for how many more there are. */
const MAX_SUMMARY = 120
const DAY_MS = 86_400_000

/** Undefined where no mail is sent: most actions of administrators, some certificates. */
export function noticeOf(event: OccurredEvent): Notice | undefined {
  const rule = ruleOf(event) as Rule<EventKind> | undefined
  if (!rule) return undefined
  const { type, to, formerAddress } = rule
  return { type, to, formerAddress, values: (about) => rule.values(event as EventOf<EventKind>, about) }
}

function ruleOf(event: OccurredEvent) {
  if (event.kind === 'admin.action') return ADMIN_ACTIONS[event.data.action] ?? changeOfUser(event.data)
  // An imported certificate was issued elsewhere, and its holder has it. The order of a revoked one has failed.
  if (event.kind === 'certificate.issuance' && (event.data.order_id === null || event.data.revoked_at !== undefined))
    return undefined
  // The mail is about names that the account may not have.
  if (event.kind === 'order.rejected' && event.data.rejected_identifiers.length === 0) return undefined
  return RULES[event.kind]
}

const holder = <K extends EventKind>(
  type: NotificationType,
  values: (data: EventData<K>, about: Addressed) => TemplateValues,
): Rule<K> => ({ type, to: 'holder', values: ({ data }, about) => values(data as EventData<K>, about) })

const RULES: { readonly [K in EventKind]?: Rule<K> } = {
  'certificate.issuance': holder('delivery_succeeded', (data) => ({
    ...named(data.domains),
    ...texts(data, 'serial_number', 'not_after', 'order_id', 'certificate_id'),
  })),
  'certificate.issuance_failed': holder('delivery_failed', (data) => ({
    ...named(valuesOf(data.identifiers)),
    ...texts(data, 'order_id'),
    error_detail: detailOf(data.error),
  })),
  'certificate.revocation': holder('revocation_succeeded', (data) => ({
    ...named(data.domains),
    ...texts(data, 'serial_number', 'reason'),
  })),
  'certificate.revocation_failed': {
    type: 'revocation_failed',
    to: 'administrators',
    values: ({ data }) => ({
      ...named(data.domains),
      ...texts(data, 'serial_number', 'reason'),
      error_detail: detailOf(data.error),
    }),
  },
  'certificate.expiration': {
    type: 'expiration_warning',
    to: 'holder',
    values: ({ data, occurredAt }) => ({
      ...named(data.domains),
      ...texts(data, 'certificate_id', 'serial_number', 'not_after'),
      warning_days: data.warning_days,
      days_left: daysLeft(data, occurredAt),
    }),
  },
  'account.registration': holder('registration_succeeded', (data) => ({
    ...texts(data, 'account_id'),
    contacts: data.contacts.map(text),
  })),
  'account.registration_failed': {
    type: 'registration_failed',
    to: 'contacts',
    values: ({ data }) => ({ contacts: data.contacts.map(text), error_detail: detailOf(data.error) }),
  },
  'account.deactivation': holder('account_deactivated', (data) => ({
    ...texts(data, 'account_id'),
    deactivated_authorizations: data.deactivated_authorizations,
  })),
  'account.revocation': holder('account_revoked', (data, about) => ({
    ...texts(data, 'account_id'),
    ...whyRevoked(about.holder),
    deactivated_authorizations: data.deactivated_authorizations,
  })),
  'account.key_change': holder('key_rollover_succeeded', (data) =>
    texts(data, 'account_id', 'old_thumbprint', 'new_thumbprint'),
  ),
  'authorization.deactivation': holder('authorization_deactivated', (data) => ({
    ...texts(data, 'authorization_id', 'identifier_type'),
    identifier: text(data.identifier_value),
    invalidated_orders: data.invalidated_orders.length,
  })),
  'order.rejected': holder('order_rejected', (data) => {
    const rejected = valuesOf(data.rejected_identifiers)
    return { rejected_identifiers: rejected, summary: summaryOf(rejected), error_detail: detailOf(data.error) }
  }),
  'order.quota_exceeded': holder('order_quota_exceeded', (data) => ({
    quota_limit: data.limit,
    ...texts(data, 'quota'),
    attempted_identifiers: valuesOf(data.attempted_identifiers),
  })),
  'order.csr_refused': holder('csr_validation_failed', (data) => ({
    ...named(valuesOf(data.identifiers)),
    ...texts(data, 'order_id'),
    error_detail: detailOf(data.error),
  })),
  'order.recovered': holder('order_stale_recovered', (data) => ({
    ...named(valuesOf(data.identifiers)),
    ...texts(data, 'order_id'),
  })),
  alarm: {
    type: 'alarm',
    to: 'administrators',
    values: ({ data }) => ({
      message: text(data.message),
      reason: text(data.reason ?? 'the log of the service says more'),
      lines: (data.lines ?? []).map(text),
    }),
  },
  'challenge.on_failure': holder('challenge_failed', (data) => ({
    identifier: text(data.identifier_value),
    ...texts(data, 'challenge_type'),
    error_detail: text(data.error),
  })),
}

const ofUser = (type: NotificationType): Rule<'admin.action'> => ({
  type,
  to: 'user',
  values: (_event, { user }) =>
    user ? { ...texts(user, 'username', 'email', 'role'), created_by: user.createdBy } : {},
})

const ADMIN_ACTIONS: Readonly<Record<string, Rule<'admin.action'>>> = {
  'user.create': ofUser('admin_user_created'),
  'user.reset_password': ofUser('admin_password_reset'),
  'user.reset_second_factor': ofUser('admin_second_factor_reset'),
  'approval.emergency': {
    type: 'alarm',
    to: 'administrators',
    values: ({ data: { details } }) => ({
      message: text(
        `${details.operator ?? 'the host'} acted without the approval that this needs: ${details['summary']}`,
      ),
      reason: text(String(details['reason'])),
    }),
  },
  'eab.pre_approve': {
    type: 'alarm',
    to: 'administrators',
    values: ({ data: { details } }) => ({
      message: text(
        `the credential ${details['kid']} needs no challenge for ${summaryOf(details['names'] as string[])}`,
      ),
      reason: text(
        `it was granted for requests from ${details['networks']}; the entry eab.pre_approve of the audit log says by whom`,
      ),
    }),
  },
}

/** Changes that let somebody sign in as the user, or hear of it. */
function changeOfUser({ action, details }: EventData<'admin.action'>): Rule<'admin.action'> | undefined {
  const name = String(details['name'])
  if (action === 'user.add_passkey') return changed(`The passkey ${name} was added.`)
  if (action === 'user.remove_passkey') return changed(`The passkey ${name} was removed.`)
  if (action === 'token.create') return changed(`The API token ${name} was made.`)
  if (action === 'user.change_password') return changed('The password was changed.')
  const { before, after } = Object(details['email']) as Readonly<Record<string, unknown>>
  if (action !== 'user.update' || typeof before !== 'string') return undefined
  return { ...changed(`The mail address was changed from ${before} to ${after}.`), formerAddress: before }
}

const changed = (change: string): Rule<'admin.action'> => ({
  type: 'admin_user_changed',
  to: 'user',
  values: (_event, { user }) =>
    user ? { ...texts(user, 'username'), changed_by: text(user.createdBy), change: text(change) } : {},
})

export const NOTIFIED_KINDS = EVENT_KINDS.filter((kind) => RULES[kind] !== undefined || kind === 'admin.action')

/** An account without a contact cannot be written to. */
export const HOLDER_KINDS = NOTIFIED_KINDS.filter((kind) => RULES[kind]?.to === 'holder')

/** Time passes between the search of a round and its events. */
const ROUND_MS = 60_000

/**
 * The threshold's days may be wrong: a certificate may live shorter, and the service may have been away. More than
 * one day counts as two, so that the warning for the last day differs.
 */
function daysLeft({ not_after, warning_days }: EventData<'certificate.expiration'>, occurredAt: Date): string {
  const leftMs = Date.parse(not_after) - occurredAt.getTime()
  const days = Math.round(leftMs / DAY_MS)
  if (days < 1) return 'less than a day'
  const isOneDay = leftMs <= (warning_days === 1 ? DAY_MS : DAY_MS - ROUND_MS)
  return isOneDay ? '1 day' : `${Math.max(2, days)} days`
}

/** `reason` for programs that read it, `cause` for people. */
function whyRevoked(account: Holder | undefined): TemplateValues {
  const kid = account?.revoked_kid
  return kid
    ? { reason: `eab_revoked:${kid}`, cause: `the credential ${text(kid)} that it was registered with was revoked` }
    : { reason: 'key_blocked', cause: 'its key is blocked, as one that others may have' }
}

const detailOf = (problem: { detail: string } | null) => text(problem?.detail ?? 'no reason was given')

const valuesOf = (identifiers: readonly { value: string }[] = []) => identifiers.map(({ value }) => text(value))

function named(names: readonly string[] = []): TemplateValues {
  const domains = names.map(text)
  return { domains, summary: summaryOf(domains) }
}

/** For a subject: "and 1 more" would not be shorter than most names. */
function summaryOf(names: readonly string[]): string {
  let shown = names.length === NAMES_IN_SUMMARY + 1 ? names.length : Math.min(names.length, NAMES_IN_SUMMARY)
  while (shown > 1 && names.slice(0, shown).join(', ').length > MAX_SUMMARY) shown--
  const rest = names.length - shown
  return names.slice(0, shown).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}

/** Members that are text. A number is given as it is. */
const texts = <K extends string>(data: { readonly [M in K]?: string | null | undefined }, ...members: K[]) =>
  Object.fromEntries(members.map((member) => [member, text(data[member])])) as Record<K, string>

/** Control characters of a stranger's text would end lines of a mail. */
function text(value: string | null | undefined): string {
  return (value ?? '').replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')
}
