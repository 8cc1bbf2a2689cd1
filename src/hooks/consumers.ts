/** Registered hooks as consumers of events: what each is told, how often, and what becomes of failures. */

import { appendFile } from 'node:fs/promises'
import type { DatabasePool } from 'slonik'
import { LOAD_MS } from '../../workers/hook/hook-thread.ts'
import { HookThreads } from '../../workers/hook/hook-threads.ts'
import type { OccurredEvent } from '../domain/event.ts'
import type { ExternalConsumer } from '../services/events/consumer.ts'
import { pemChainOf } from '../services/events/pem-chain.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { RegisteredHook, WebhookHook } from './registered-hook.ts'
import { Webhook, WebhookError } from './webhook.ts'

export interface HookConsumersOptions {
  hooks: readonly RegisteredHook[]
  db: DatabasePool
  /** `hooks.max_workers`, shared among the hooks; each has at least one. */
  maxWorkers: number
  includeRoot: boolean
  onOutput(hook: string, text: string): void
}

export interface HookConsumers {
  consumers: readonly ExternalConsumer[]
  close(): Promise<void>
}

/** The reference's factor and base, and an end to the doubling. */
const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 600_000
/** Over the hook's own limit, which ends a call first. */
const MARGIN_MS = 1_000

type Deliver = (event: OccurredEvent, context: object, signal: AbortSignal) => Promise<void>

export function hookConsumers(options: HookConsumersOptions): HookConsumers {
  const { hooks, maxWorkers, onOutput } = options
  const concurrency = Math.max(1, Math.floor(maxWorkers / Math.max(1, hooks.length)))
  const threads: HookThreads[] = []
  const consumers = hooks.map((hook) => {
    if ('url' in hook) return consumerOf(hook, concurrency, options, webhookDelivery(hook))
    const pool = new HookThreads(hook.module, (text) => onOutput(hook.name, text))
    threads.push(pool)
    const { timeoutMs } = hook
    return consumerOf(hook, concurrency, options, (event, context, signal) =>
      pool.call({ event: event.kind, eventId: event.id, context, timeoutMs }, signal),
    )
  })
  return {
    consumers,
    close: async () => void (await Promise.all(threads.map((pool) => pool.close()))),
  }
}

function webhookDelivery(hook: WebhookHook): Deliver {
  const webhook = new Webhook(hook)
  return (event, context, signal) => webhook.post(event, context, signal)
}

function consumerOf(
  { name, kinds, timeoutMs, maxRetries }: RegisteredHook,
  concurrency: number,
  { db, includeRoot }: HookConsumersOptions,
  deliver: Deliver,
): ExternalConsumer {
  return {
    ...{ name, kinds, concurrency },
    timeoutMs: timeoutMs + LOAD_MS + MARGIN_MS,
    retryDelayMs(failures, error) {
      const { isFinal, retryAfterMs } = error instanceof WebhookError ? error : { isFinal: false, retryAfterMs: 0 }
      if (isFinal || failures > maxRetries) return undefined
      return Math.max(retryAfterMs, Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), MAX_RETRY_MS))
    },
    async deliver(event, signal) {
      await deliver(event, await contextOf(event, db, includeRoot), signal)
    },
  }
}

/** What every hook is given. The chain is read now: most consumers of an issuance do not want it. */
async function contextOf(event: OccurredEvent, db: DatabasePool, includeRoot: boolean): Promise<object> {
  const { id, kind, occurredAt, data } = event
  const base = { event_id: id, event: kind, occurred_at: renderTimestamp(occurredAt), ...data }
  if (kind !== 'certificate.issuance') return base
  return { ...base, pem_chain: await pemChainOf(db, String(data.certificate_id), includeRoot) }
}

/** A line with the whole payload, so that nothing is lost with the database. */
export async function logDeadLetter(file: string, hook: string, event: OccurredEvent, error: unknown): Promise<void> {
  const { id, kind, subject, accountId, occurredAt, data } = event
  const reason = error instanceof Error ? error.message : String(error)
  const line = {
    ...{ timestamp: new Date().toISOString(), hook_name: hook, event: kind, event_id: id, error: reason },
    ...{ subject, account_id: accountId ?? null, occurred_at: occurredAt.toISOString(), data },
  }
  await appendFile(file, `${JSON.stringify(line)}\n`, { mode: 0o600 })
}
