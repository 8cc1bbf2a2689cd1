/** Registered hooks as consumers of events: what each is told, how often, and what becomes of failures. */

import { appendFile } from 'node:fs/promises'
import type { DatabasePool } from 'slonik'
import { methodOf } from '../../../workers/module/module-contract.ts'
import { LOAD_MS } from '../../../workers/module/module-thread.ts'
import { ModuleThreads } from '../../../workers/module/module-threads.ts'
import type { OccurredEvent } from '../../domain/event.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import type { ExternalConsumer } from '../consumer.ts'
import { PemChains } from '../pem-chain.ts'
import type { RegisteredHook, WebhookHook } from './registered-hook.ts'
import { type ToldEvent, Webhook, WebhookError } from './webhook.ts'

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

interface HookDelivery {
  one(event: OccurredEvent, context: object, signal: AbortSignal): Promise<void>
  /** Undefined where each event has a call of its own. */
  all?: { most: number; deliver(told: readonly ToldEvent[], signal: AbortSignal): Promise<void> }
}

export function hookConsumers(options: HookConsumersOptions): HookConsumers {
  const { hooks, maxWorkers, onOutput } = options
  const concurrency = Math.max(1, Math.floor(maxWorkers / Math.max(1, hooks.length)))
  const threads: ModuleThreads[] = []
  const consumers = hooks.map((hook) => {
    if ('url' in hook) return consumerOf(hook, concurrency, options, webhookDelivery(hook))
    const pool = new ModuleThreads(hook.module, (text) => onOutput(hook.name, text))
    threads.push(pool)
    const { timeoutMs } = hook
    return consumerOf(hook, concurrency, options, {
      async one({ id: eventId, kind }, argument, signal) {
        const call = { method: methodOf(kind), argument, context: { eventId }, timeoutMs, isAnswered: false }
        await pool.call(call, signal)
      },
    })
  })
  return {
    consumers,
    close: async () => void (await Promise.all(threads.map((pool) => pool.close()))),
  }
}

function webhookDelivery(hook: WebhookHook): HookDelivery {
  const webhook = new Webhook(hook)
  const { batch: most } = hook
  return {
    one: (event, context, signal) => webhook.post(event, context, signal),
    ...(most > 1 && { all: { most, deliver: (told, signal) => webhook.postAll(told, signal) } }),
  }
}

function consumerOf(
  { name, kinds, timeoutMs, maxRetries }: RegisteredHook,
  concurrency: number,
  { db, includeRoot }: HookConsumersOptions,
  { one, all }: HookDelivery,
): ExternalConsumer {
  const chains = new PemChains(db, includeRoot)
  return {
    name,
    kinds,
    concurrency,
    expect: (events) => chains.expect(events.flatMap((event) => certificateIn(event) ?? [])),
    timeoutMs: timeoutMs + LOAD_MS + MARGIN_MS,
    retryDelayMs(failures, error) {
      const { isFinal, retryAfterMs } = error instanceof WebhookError ? error : { isFinal: false, retryAfterMs: 0 }
      if (isFinal || failures > maxRetries) return undefined
      return Math.max(retryAfterMs, Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), MAX_RETRY_MS))
    },
    async deliver(event, signal) {
      await one(event, await contextOf(event, chains), signal)
    },
    ...(all && {
      most: all.most,
      isRefusal: (error: unknown) => error instanceof WebhookError && error.isFinal,
      async deliverTogether(events: readonly OccurredEvent[], signal: AbortSignal) {
        const told = events.map(async (event) => ({ event, context: await contextOf(event, chains) }))
        await all.deliver(await Promise.all(told), signal)
      },
    }),
  }
}

/** The context of every hook. The chain is read now: most consumers of an issuance do not want it. */
async function contextOf(event: OccurredEvent, chains: PemChains): Promise<object> {
  const { id, kind, occurredAt, data } = event
  const base = { event_id: id, event: kind, occurred_at: renderTimestamp(occurredAt), ...data }
  const issued = certificateIn(event)
  return issued === undefined ? base : { ...base, pem_chain: await chains.of(issued) }
}

const certificateIn = (event: OccurredEvent) =>
  event.kind === 'certificate.issuance' ? event.data.certificate_id : undefined

/** A line with the whole payload, so that nothing is lost with the database. */
export async function logDeadLetter(file: string, hook: string, event: OccurredEvent, error: unknown): Promise<void> {
  const { id, kind, subject, accountId, occurredAt, data } = event
  const reason = error instanceof Error ? error.message : String(error)
  const line = {
    timestamp: new Date().toISOString(),
    hook_name: hook,
    event: kind,
    event_id: id,
    error: reason,
    subject,
    account_id: accountId ?? null,
    occurred_at: occurredAt.toISOString(),
    data,
  }
  await appendFile(file, `${JSON.stringify(line)}\n`, { mode: 0o600 })
}
