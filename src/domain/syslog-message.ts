/** An event as the audit log's file and webhook carry it, and as a syslog message (RFC 5424) with its frame (RFC 6587 §3.4.1). */

import { type OccurredEvent, severityOf } from './event.ts'

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

interface SyslogSender {
  hostname: string
  processId: number
}

/** RFC 5424 §6.2.1: log audit. */
const FACILITY = 13

/** The number is for examples (RFC 5612); this project has none of its own. */
const STRUCTURE = 'event@32473'

export function renderSyslogMessage(event: OccurredEvent, { hostname, processId }: SyslogSender): string {
  const priority = FACILITY * 8 + severityOf(event.kind)
  const parameters = Object.entries({
    id: event.id,
    kind: event.kind,
    subject: event.subject,
    account: event.accountId,
  }).flatMap(([name, value]) => (value === undefined ? [] : [` ${name}="${escapeParameter(value)}"`]))
  const head = `<${priority}>1 ${event.occurredAt.toISOString()} ${visible(hostname, 255)} chancery ${processId} ${event.kind}`
  return `${head} [${STRUCTURE}${parameters.join('')}] ${inAscii(renderAuditRecord(event))}`
}

/** On a stream, the length comes before the message. */
export const octetCounted = (message: string) => `${Buffer.byteLength(message)} ${message}`

/** RFC 5426 §3.2: every receiver should take so much in one datagram. */
const MAX_DATAGRAM = 2_048

export const datagram = (message: string) => Buffer.from(message).subarray(0, MAX_DATAGRAM)

/** RFC 5424 §6.3.3. */
const escapeParameter = (value: string) => inAscii(value.replace(/["\\\]]/g, '\\$&'))

/** RFC 5424 §6.2.4: visible ASCII, and a dash for nothing. */
const visible = (value: string, most: number) => value.replace(/[^!-~]/g, '').slice(0, most) || '-'

/** Without other characters, no byte-order mark is due (RFC 5424 §6.4), and a cut splits none. */
const inAscii = (text: string) =>
  text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
