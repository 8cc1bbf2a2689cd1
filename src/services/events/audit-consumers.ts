/** Audit export: what happened, for a webhook and a syslog daemon. */

import { hostname } from 'node:os'
import { AUDIT_KINDS, renderAuditRecord } from '../../domain/audit-record.ts'
import { renderSyslogMessage } from '../../domain/syslog-message.ts'
import type { ExternalConsumer } from './consumer.ts'
import { postJson } from './http-post.ts'
import { patientConsumer, ReceiverBusy } from './patience.ts'
import type { SyslogTransport } from './syslog-sender.ts'

const TIMEOUT_MS = 15_000
/** Each message keeps its place until the connection has outlived it. */
const SYSLOG_CONCURRENCY = 200
const WEBHOOK_CONCURRENCY = 8

export function syslogConsumer(transport: SyslogTransport): ExternalConsumer {
  const sender = { hostname: hostname(), processId: process.pid }
  return patientConsumer({
    ...{ name: 'audit-syslog', kinds: AUDIT_KINDS, concurrency: SYSLOG_CONCURRENCY, timeoutMs: TIMEOUT_MS },
    deliver: (event) => transport.send(renderSyslogMessage(event, sender)),
  })
}

/** @param url may hold a secret, so no error names it */
export function webhookConsumer(url: string): ExternalConsumer {
  return patientConsumer({
    ...{ name: 'audit-webhook', kinds: AUDIT_KINDS, concurrency: WEBHOOK_CONCURRENCY, timeoutMs: TIMEOUT_MS },
    async deliver(event, signal) {
      const { status, retryAfter } = await postJson('the webhook', url, renderAuditRecord(event), signal)
      if (status < 200 || status > 299) throw new ReceiverBusy(`the webhook answered ${status}`, retryAfter)
    },
  })
}
