/**
 * Registered hooks, modules and webhooks, as consumers of events: what each is told, how often, and what becomes of failures.
 */

import { createHmac } from 'node:crypto'
import { appendFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { methodOf } from '../../../workers/module/module-contract.ts'
import { LOAD_MS, ModuleThreads } from '../../../workers/module/module-thread.ts'
import type { OccurredEvent } from '../../domain/event.ts'
import { renderIssuerChain } from '../../services/chain-download.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { findIssuerChain } from '../../store/certificate-store.ts'
import { queriesOf, rowsOf, sql } from '../../store/slonik.ts'
import type { ExternalConsumer } from '../consumer.ts'
import { poster, receiverGuard } from '../http-post.ts'
import type { RegisteredHook, WebhookHook } from './load-hooks.ts'

interface HookConsumersOptions {
  hooks: readonly RegisteredHook[]
  db: DatabasePool
  /** `hooks.max_workers`, shared among the hooks; each has at least one. */
  maxWorkers: number
  includeRoot: boolean
  onOutput(hook: string, text: string): void
}

interface HookConsumers {
  consumers: readonly ExternalConsumer[]
  close(): Promise<void>
}

/** The reference's factor and base, and an end to the doubling. */
const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 600_000
/** The attempt may take so much longer than the hook's own limit, which ends a call first. */
const MARGIN_MS = 1_000

/** Hands events to the hook in one call. */
type HookCall = (told: readonly [ToldEvent, ...ToldEvent[]], signal: AbortSignal) => Promise<void>

export function hookConsumers(options: HookConsumersOptions): HookConsumers {
  const { hooks, maxWorkers, onOutput } = options
  const concurrency = Math.max(1, Math.floor(maxWorkers / Math.max(1, hooks.length)))
  const threads: ModuleThreads[] = []
  const callOf = (hook: RegisteredHook): HookCall => {
    if ('url' in hook) {
      const webhook = new Webhook(hook)
      return (told, signal) => webhook.post(told, signal)
    }
    const pool = new ModuleThreads(hook.module, (text) => onOutput(hook.name, text))
    threads.push(pool)
    const { timeoutMs } = hook
    return async ([{ event, context: argument }], signal) => {
      const { id: eventId, kind } = event
      await pool.call({ method: methodOf(kind), argument, context: { eventId }, timeoutMs, isAnswered: false }, signal)
    }
  }
  return {
    consumers: hooks.map((hook) => consumerOf(hook, callOf(hook), concurrency, options)),
    close: async () => void (await Promise.all(threads.map((pool) => pool.close()))),
  }
}

function consumerOf(
  hook: RegisteredHook,
  call: HookCall,
  concurrency: number,
  { db, includeRoot }: HookConsumersOptions,
): ExternalConsumer {
  const { name, kinds, timeoutMs, maxRetries } = hook
  const chains = new PemChains(db, includeRoot)
  const told = async (event: OccurredEvent): Promise<ToldEvent> => ({ event, context: await contextOf(event, chains) })
  return {
    name,
    kinds,
    concurrency,
    most: 'url' in hook ? hook.batch : 1,
    expect: (events) => chains.expect(events.flatMap((event) => certificateIn(event) ?? [])),
    timeoutMs: timeoutMs + LOAD_MS + MARGIN_MS,
    retryDelayMs(failures, error) {
      const { isFinal, retryAfterMs } = error instanceof WebhookError ? error : { isFinal: false, retryAfterMs: 0 }
      if (isFinal || failures > maxRetries) return undefined
      return Math.max(retryAfterMs, Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), MAX_RETRY_MS))
    },
    isRefusal: (error) => error instanceof WebhookError && error.isFinal,
    async deliver([first, ...others], signal) {
      await call([await told(first), ...(await Promise.all(others.map(told)))], signal)
    },
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

/** A CA changes its issuers a few times in its life. */
const MOST_ISSUERS = 100

/** PEM chains of issued certificates: read together, issuers once. */
class PemChains {
  readonly #db: CommonQueryMethods
  readonly #includeRoot: boolean
  readonly #issuers = new Map<string, string>()
  /** Certificates that were read ahead, until a consumer asks for them. */
  readonly #expected = new Map<string, Promise<ReadonlyMap<string, Issued>>>()

  constructor(db: CommonQueryMethods, includeRoot: boolean) {
    this.#db = db
    this.#includeRoot = includeRoot
  }

  /** Reads these in one statement. */
  expect(certificateIds: readonly string[]): void {
    if (certificateIds.length === 0) return
    const reading = findIssued(this.#db, certificateIds)
    // The consumer that asks for one gets the error.
    reading.catch(() => undefined)
    for (const id of certificateIds) this.#expected.set(id, reading)
  }

  /** @returns an empty text when retention has removed the certificate */
  async of(certificateId: string): Promise<string> {
    const reading = this.#expected.get(certificateId) ?? findIssued(this.#db, [certificateId])
    this.#expected.delete(certificateId)
    const issued = (await reading).get(certificateId)
    if (!issued) return ''
    return encodePem('CERTIFICATE', issued.der) + (await this.#issuerChain(issued.issuerFingerprint))
  }

  async #issuerChain(fingerprint: string): Promise<string> {
    const known = this.#issuers.get(fingerprint)
    if (known !== undefined) return known
    const chain = (await findIssuerChain(queriesOf(this.#db), fingerprint)) ?? []
    if (chain.length === 0) return ''
    const text = renderIssuerChain(chain, this.#includeRoot)
    if (this.#issuers.size >= MOST_ISSUERS) this.#issuers.clear()
    this.#issuers.set(fingerprint, text)
    return text
  }
}

/** A line with the whole payload, so that nothing is lost with the database. */
export async function logDeadLetter(file: string, hook: string, event: OccurredEvent, error: unknown): Promise<void> {
  const { id, kind, subject, accountId, occurredAt, data } = event
  const reason = messageOf(error)
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

/** A receiver that names a later time would stop all events of its subject. */
const MAX_RETRY_AFTER_MS = 3_600_000

export class WebhookError extends Error {
  /** Another attempt would get the same answer. */
  readonly isFinal: boolean
  readonly retryAfterMs: number

  constructor(message: string, { isFinal = false, retryAfterMs = 0 } = {}) {
    super(message)
    this.name = 'WebhookError'
    this.isFinal = isFinal
    this.retryAfterMs = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
  }
}

const PLAIN = 'application/json'
const CLOUD_EVENT = 'application/cloudevents+json; charset=utf-8'
const CLOUD_EVENTS = 'application/cloudevents-batch+json; charset=utf-8'

interface ToldEvent {
  event: OccurredEvent
  context: object
}

/**
 * POSTs events to the operator's URL: CloudEvents 1.0 in JSON, signed with HMAC-SHA-256, or `{event, data}` for receivers
 * made for the reference's class.
 *
 * The address is checked where the connection is made, so a name that changes in between gains nothing. Redirects are not
 * followed: they would pass by that check.
 */
export class Webhook {
  readonly #hook: WebhookHook
  readonly #send: ReturnType<typeof poster<ReturnType<typeof statusOf>>>

  constructor(hook: WebhookHook) {
    this.#hook = hook
    const guard = receiverGuard(hook.allowPrivate, blocked)
    this.#send = poster(hook.url, statusOf, { guard, ca: hook.ca })
  }

  /**
   * Several events go as an array, which is taken or refused as a whole (CloudEvents 1.0, JSON batch format); so does one
   * where the receiver expects arrays.
   * @throws WebhookError, and errors of the connection
   */
  async post(told: readonly [ToldEvent, ...ToldEvent[]], signal: AbortSignal): Promise<void> {
    const { secret, isPlain, batch } = this.#hook
    const isArray = batch > 1
    const body = JSON.stringify(isArray ? told.map((one) => this.#shown(one)) : this.#shown(told[0]))
    const type = isPlain ? PLAIN : isArray ? CLOUD_EVENTS : CLOUD_EVENT
    const signed = secret === undefined ? {} : { 'Chancery-Signature': signatureOf(body, secret) }
    const { status, retryAfter } = await this.#send(body, type, signal, signed)
    if (status >= 200 && status < 300) return
    if (status >= 500 || status === 429)
      throw new WebhookError(`the receiver answered ${status}`, { retryAfterMs: retryAfterMsOf(retryAfter) })
    const advice = status >= 300 && status < 400 ? '; redirects are not followed' : ''
    throw new WebhookError(`the receiver answered ${status}${advice}`, { isFinal: true })
  }

  #shown({ event, context }: ToldEvent): object {
    return this.#hook.isPlain ? { event: event.kind, data: context } : this.#cloudEvent(event, context)
  }

  /** CloudEvents 1.0 §3.1; the event gives the id, so that a repetition is recognised. */
  #cloudEvent({ id, kind, subject, occurredAt }: OccurredEvent, context: object): object {
    return {
      specversion: '1.0',
      id,
      source: this.#hook.source,
      type: `chancery.${kind}`,
      subject,
      time: occurredAt.toISOString(),
      datacontenttype: 'application/json',
      data: context,
    }
  }
}

/** The status is all that counts; an error while the body is dropped changes nothing. */
function statusOf(answer: IncomingMessage) {
  answer.resume()
  answer.on('error', () => undefined)
  return { status: answer.statusCode ?? 0, retryAfter: answer.headers['retry-after'] }
}

const blocked = () =>
  new WebhookError('the URL leads to a private address; allow_private: true permits it', { isFinal: true })

/** `t=SECONDS,v1=HEX`, over the time, a dot and the body: an old request cannot be sent again later. */
function signatureOf(body: string, secret: string, seconds = Math.floor(Date.now() / 1000)): string {
  return `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`
}

/** RFC 9110 §10.2.3: seconds or a date. */
function retryAfterMsOf(text: string | undefined): number {
  if (text === undefined) return 0
  if (/^\d+$/.test(text)) return Number(text) * 1000
  const at = Date.parse(text)
  return Number.isNaN(at) ? 0 : Math.max(0, at - Date.now())
}

const IssuedRow = z.object({ id: z.string(), der: z.instanceof(Buffer), issuer_fingerprint: z.string() })

interface Issued {
  der: Buffer
  issuerFingerprint: string
}

/** By certificate; those that retention has removed are missing. */
async function findIssued(db: CommonQueryMethods, ids: readonly string[]): Promise<ReadonlyMap<string, Issued>> {
  const rows = await db.any(rowsOf(IssuedRow)`
    SELECT id, der, encode(issuer_fingerprint, 'hex') AS issuer_fingerprint
      FROM certificates WHERE id = ANY (${sql.array([...ids], 'uuid')})`)
  return new Map(rows.map(({ id, der, issuer_fingerprint }) => [id, { der, issuerFingerprint: issuer_fingerprint }]))
}
