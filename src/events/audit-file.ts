/**
 * The audit log's file: one JSON object a line, mode 0600, rotated by size.
 *
 * The file is opened for each batch. So one that logrotate has moved is left at once, and SIGHUP
 * has nothing to reopen.
 */

import { type FileHandle, open, rename } from 'node:fs/promises'
import { AUDIT_KINDS, type OccurredEvent } from '../domain/event.ts'
import { renderAuditRecord } from '../domain/syslog-message.ts'
import type { ExternalConsumer } from './consumer.ts'
import { patientDelayMs } from './patience.ts'

export interface AuditFileSettings {
  path: string
  /** A line that would make the file larger begins a new one. */
  maxBytes: number
  /** Former files that are kept: `path.1` is the newest. */
  backups: number
}

const LINES_AT_ONCE = 200
const TIMEOUT_MS = 20_000

/** @throws Error in a sentence when the file cannot be written */
export async function auditFileConsumer(settings: AuditFileSettings): Promise<ExternalConsumer> {
  await append(settings, []).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`cannot write to logging.audit.file ${settings.path}: ${error.code ?? error.message}`)
  })
  return {
    name: 'audit-file',
    kinds: AUDIT_KINDS,
    concurrency: 1,
    most: LINES_AT_ONCE,
    timeoutMs: TIMEOUT_MS,
    retryDelayMs: patientDelayMs,
    deliver: (event) => append(settings, [lineOf(event)]),
    // A part of them may be in the file when it fails.
    deliverTogether: (events) => append(settings, events.map(lineOf)),
  }
}

const lineOf = (event: OccurredEvent) => `${renderAuditRecord(event)}\n`

async function append(settings: AuditFileSettings, lines: readonly string[]): Promise<void> {
  let file = await openFile(settings.path)
  try {
    let { size } = await file.stat()
    let text = ''
    for (const line of lines) {
      const bytes = Buffer.byteLength(line)
      if (size > 0 && size + bytes > settings.maxBytes) {
        await writeDown(file, text)
        await file.close()
        await shift(settings)
        file = await openFile(settings.path)
        text = ''
        size = 0
      }
      text += line
      size += bytes
    }
    await writeDown(file, text)
  } finally {
    await file.close()
  }
}

const openFile = (path: string): Promise<FileHandle> => open(path, 'a', 0o600)

/** The delivery leaves the database only when its line is on disk. */
async function writeDown(file: FileHandle, text: string): Promise<void> {
  if (text === '') return
  await file.appendFile(text)
  await file.datasync()
}

/** The oldest file is written over. */
async function shift({ path, backups }: AuditFileSettings): Promise<void> {
  for (let n = backups; n >= 1; n--)
    await rename(n === 1 ? path : `${path}.${n - 1}`, `${path}.${n}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
}
