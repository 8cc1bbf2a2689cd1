/** Audit export: what happened, for a webhook and a syslog daemon. */

import { hostname } from 'node:os'
import { AUDIT_KINDS } from '../domain/event.ts'
import { renderAuditRecord, renderSyslogMessage } from '../domain/syslog-message.ts'
import type { ExternalConsumer } from './consumer.ts'
import { jsonPoster, type ReceiverGuard } from './http-post.ts'
import { patientConsumer, ReceiverBusy, Refused } from './patience.ts'
import type { SyslogTransport } from './syslog-sender.ts'

const TIMEOUT_MS = 15_000
/** Each message keeps its place until the connection has outlived it. */
const SYSLOG_CONCURRENCY = 200
const WEBHOOK_CONCURRENCY = 8

export function syslogConsumer(transport: SyslogTransport): ExternalConsumer {
  const sender = { hostname: hostname(), processId: process.pid }
  return patientConsumer({
    name: 'audit-syslog',
    kinds: AUDIT_KINDS,
    concurrency: SYSLOG_CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    deliver: (event) => transport.send(renderSyslogMessage(event, sender)),
  })
}

/**
 * @param url may hold a secret, so no error names it
 * @param most records of one request; more than one go as an array
 */
export function webhookConsumer(url: string, most = 1, guard?: ReceiverGuard): ExternalConsumer {
  const post = jsonPoster('the webhook', url, guard)
  async function send(body: string, signal: AbortSignal): Promise<void> {
    const { status, retryAfter } = await post(body, signal)
    if (status >= 200 && status <= 299) return
    const answered = `the webhook answered ${status}`
    throw status >= 500 || status === 429 ? new ReceiverBusy(answered, retryAfter) : new Refused(answered)
  }
  return patientConsumer({
    name: 'audit-webhook',
    kinds: AUDIT_KINDS,
    concurrency: WEBHOOK_CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    deliver: (event, signal) => send(renderAuditRecord(event), signal),
    ...(most > 1 && {
      most,
      deliverTogether: (events, signal) => send(`[${events.map(renderAuditRecord).join()}]`, signal),
    }),
  })
}
