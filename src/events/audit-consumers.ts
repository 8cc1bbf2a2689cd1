/**
 * Audit export: what happened, for a webhook, a syslog daemon and a file; and its counts, for the console.
 *
 * The file has one JSON object a line and mode 0600, and is rotated by size. It is opened for each batch: one that
 * logrotate has moved is left at once, and SIGHUP has nothing to reopen.
 */

import { type FileHandle, open, rename } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { CommonQueryMethods } from 'slonik'
import { AUDIT_KINDS, EVENT_KINDS, FAILURE_KINDS, type OccurredEvent } from '../domain/event.ts'
import { addAccountFailures, addEventCounts, addRaisedAlarms } from '../store/event-statistics-store.ts'
import {
  backoffDelayMs,
  type DatabaseConsumer,
  type ExternalConsumer,
  ReceiverBusy,
  Refused,
  withBackoff,
} from './consumer.ts'
import { BlockedReceiver, jsonPoster, receiverGuard } from './http-post.ts'
import { renderAuditRecord, renderSyslogMessage, type SyslogTransport } from './syslog-sender.ts'

const TIMEOUT_MS = 15_000
/** Each message keeps its place until the connection has outlived it. */
const SYSLOG_CONCURRENCY = 200
const WEBHOOK_CONCURRENCY = 8

export function syslogConsumer(transport: SyslogTransport): ExternalConsumer {
  const sender = { hostname: hostname(), processId: process.pid }
  return withBackoff({
    name: 'audit-syslog',
    kinds: AUDIT_KINDS,
    concurrency: SYSLOG_CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    deliver: ([event]) => transport.send(renderSyslogMessage(event, sender)),
  })
}

export interface AuditWebhook {
  /** It may hold a secret, so no error names it. */
  url: string
  /** Most records of one request; more than one go as an array. */
  batch: number
  allowPrivate: boolean
}

const blockedWebhook = () =>
  new BlockedReceiver('the webhook leads to a private address; audit_export.webhook_allow_private permits it')

export function webhookConsumer({ url, batch: most, allowPrivate }: AuditWebhook): ExternalConsumer {
  const guard = receiverGuard(allowPrivate, blockedWebhook)
  const post = jsonPoster('the webhook', url, guard)
  async function send(body: string, signal: AbortSignal): Promise<void> {
    const { status, retryAfter } = await post(body, signal)
    if (status >= 200 && status <= 299) return
    const answered = `the webhook answered ${status}`
    throw status >= 500 || status === 429 ? new ReceiverBusy(answered, retryAfter) : new Refused(answered)
  }
  return withBackoff({
    name: 'audit-webhook',
    kinds: AUDIT_KINDS,
    concurrency: WEBHOOK_CONCURRENCY,
    timeoutMs: TIMEOUT_MS,
    most,
    deliver(events, signal) {
      const records = events.map(renderAuditRecord).join()
      return send(most > 1 ? `[${records}]` : records, signal)
    },
  })
}

export interface AuditFileSettings {
  path: string
  /** A line that would make the file larger begins a new one. */
  maxBytes: number
  /** Former files that are kept: `path.1` is the newest. */
  backups: number
}

const LINES_AT_ONCE = 200
const FILE_TIMEOUT_MS = 20_000

/** @throws Error in a sentence when the file cannot be written */
export async function auditFileConsumer(settings: AuditFileSettings): Promise<ExternalConsumer> {
  await append(settings, []).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`cannot write to logging.audit.file ${settings.path}: ${error.code ?? error.message}`)
  })
  // One write at a time. A write that a slow disk held up may still cut the file back, or repeat its lines.
  let last = Promise.resolve()
  const appendInTurn = (events: readonly OccurredEvent[], signal: AbortSignal): Promise<void> => {
    const turn = last.then(() => {
      signal.throwIfAborted()
      return append(settings, events.map(lineOf))
    })
    last = turn.catch(() => undefined)
    return turn
  }
  return {
    name: 'audit-file',
    kinds: AUDIT_KINDS,
    concurrency: 1,
    most: LINES_AT_ONCE,
    timeoutMs: FILE_TIMEOUT_MS,
    retryDelayMs: backoffDelayMs,
    deliver: appendInTurn,
  }
}

const lineOf = (event: OccurredEvent) => `${renderAuditRecord(event)}\n`

interface OpenedFile {
  file: FileHandle
  /** The length before these lines. */
  length?: number
}

/** Appends all of the lines, or none: after an error they come again. */
async function append({ path, ...settings }: AuditFileSettings, lines: readonly string[]): Promise<void> {
  const opened: OpenedFile[] = []
  try {
    let file = await begin(path, opened)
    let size = opened.at(-1)?.length ?? 0
    let text = ''
    for (const line of lines) {
      const bytes = Buffer.byteLength(line)
      if (size > 0 && size + bytes > settings.maxBytes) {
        await writeDown(file, text)
        await shift({ path, ...settings })
        file = await begin(path, opened)
        text = ''
        size = 0
      }
      text += line
      size += bytes
    }
    await writeDown(file, text)
  } catch (error) {
    for (const { file, length } of opened) if (length !== undefined) await file.truncate(length).catch(() => undefined)
    throw error
  } finally {
    for (const { file } of opened) await file.close()
  }
}

/** Every record is shorter. */
const LONGEST_LINE = 1024 * 1024

/** Cuts off a line that a crash has torn: its record comes again. */
async function begin(path: string, opened: OpenedFile[]): Promise<FileHandle> {
  const file = await open(path, 'a+', 0o600)
  const one: OpenedFile = { file }
  opened.push(one)
  const { size } = await file.stat()
  const end = async (bytes: number) => (await file.read(Buffer.alloc(bytes), 0, bytes, size - bytes)).buffer
  one.length = size
  if (size === 0 || (await end(1)).includes('\n')) return file
  const last = Math.min(size, LONGEST_LINE)
  one.length = size - last + (await end(last)).lastIndexOf('\n') + 1
  await file.truncate(one.length)
  return file
}

/** The delivery leaves the database only when its line is on disk. */
async function writeDown(file: FileHandle, text: string): Promise<void> {
  if (text === '') return
  await file.appendFile(text)
  await file.datasync()
}

/** Renames the files; the oldest is written over. */
async function shift({ path, backups }: AuditFileSettings): Promise<void> {
  for (let n = backups; n >= 1; n--)
    await rename(n === 1 ? path : `${path}.${n - 1}`, `${path}.${n}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
}

const failures = new Set<string>(FAILURE_KINDS)

/** Counts by kind and hour, the texts of alarms, and the last failures of each account. */
export const STATISTICS: DatabaseConsumer = {
  name: 'statistics',
  kinds: EVENT_KINDS,
  async take(events: readonly OccurredEvent[], tx: CommonQueryMethods): Promise<void> {
    await addEventCounts(tx, events)
    const failed = events.filter(({ kind, accountId }) => accountId !== undefined && failures.has(kind))
    const alarms = events.filter((event) => event.kind === 'alarm')
    if (alarms.length > 0) await addRaisedAlarms(tx, alarms)
    if (failed.length > 0) await addAccountFailures(tx, failed)
  },
}
