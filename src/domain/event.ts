/** What happened: the kinds of events, and an event as a consumer gets it. */

/** The ten of the hooks, and ours beside them (docs/decisions/events.md). */
export const EVENT_KINDS = [
  'account.registration',
  'account.registration_failed',
  'account.deactivation',
  'account.revocation',
  'account.key_change',
  'order.creation',
  'order.rejected',
  'order.csr_refused',
  'order.quota_exceeded',
  'order.recovered',
  'challenge.before_validate',
  'challenge.after_validate',
  'challenge.on_failure',
  'challenge.on_retry',
  'authorization.deactivation',
  'certificate.issuance',
  'certificate.issuance_failed',
  'certificate.revocation',
  'certificate.revocation_failed',
  'certificate.delivery',
  'certificate.expiration',
  'ct.submission',
  'crl.publication',
  'admin.action',
  'abuse.summary',
  'alarm',
] as const
export type EventKind = (typeof EVENT_KINDS)[number]

export type EventData = Readonly<Record<string, unknown>>

export interface OccurredEvent {
  /** UUID; a repeated delivery has the same. */
  id: string
  kind: EventKind
  /** Events of one subject come in their order. */
  subject: string
  accountId: string | undefined
  occurredAt: Date
  data: EventData
}

/** An event that its writer makes, as it is handed to consumers (docs/decisions/events.md). */
export type NewEvent = Pick<OccurredEvent, 'kind' | 'subject' | 'accountId' | 'data'>

/** What a client or an account could not do; the console shows the last of each account. */
export const FAILURE_KINDS: readonly EventKind[] = [
  ...(['order.rejected', 'order.csr_refused', 'order.quota_exceeded'] as const),
  ...(['certificate.issuance_failed', 'challenge.on_failure'] as const),
]
