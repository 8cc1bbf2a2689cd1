/** An event as the audit log's file, its webhook and syslog carry it. */

import { EVENT_KINDS, type EventKind, type OccurredEvent } from './event.ts'

/** One attempt's beginning tells nothing that its end does not. */
export const AUDIT_KINDS: readonly EventKind[] = EVENT_KINDS.filter((kind) => kind !== 'challenge.before_validate')

/** `event` and `data` are named as the receivers of earlier exports know them. */
export function renderAuditRecord({ id, kind, subject, accountId, occurredAt, data }: OccurredEvent): string {
  return JSON.stringify({
    event: kind,
    event_id: id,
    occurred_at: occurredAt.toISOString(),
    subject,
    ...(accountId !== undefined && { account_id: accountId }),
    data,
  })
}
