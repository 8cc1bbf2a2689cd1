/** An event as the audit log's file, its webhook and syslog carry it. */

import type { OccurredEvent } from './event.ts'

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
