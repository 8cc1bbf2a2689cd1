/** The admin thread, and the way from the fronts to it. */

import type { CheckStatus } from '../ops/health.ts'
import { type SupervisedThread, superviseThread } from '../runtime/thread.ts'
import { auditKeyOf } from '../settings/admin.ts'
import { spawnAdminQuestions } from './admin-questions.ts'
import type { AdminQuestions, AdminThreadData, AdminThreadMessages, ReloadChanges } from './messages.ts'
import { threadEvents } from './service-events.ts'
import type { CaPart } from './start-ca.ts'
import { type StartContext, THREAD_READY_TIMEOUT_MS } from './start-context.ts'

const NOTE_MS = 5_000
const RESTART = { initialDelayMs: 50, maxDelayMs: 5_000, maxRestarts: 20, windowMs: 60_000 }

export interface AdminThread extends SupervisedThread<AdminThreadMessages> {
  /** Whether the audit log still has what the thread has seen of it. */
  auditLog(): CheckStatus
  /** Leaves an entry in the audit log. Never rejects. */
  noteReload(changes: ReloadChanges): Promise<void>
}

/** @returns undefined when the Admin API is off */
export async function startAdmin(context: StartContext, { ca }: Pick<CaPart, 'ca'>): Promise<AdminThread | undefined> {
  const { config, version, log, teardown, onBroken } = context
  if (!config.admin_api.enabled) return undefined
  // The thread reads the key itself; this call reports an error once and early.
  auditKeyOf(config)
  // The embedded mode, without a file, is for a person at this machine.
  const isInteractive = process.stderr.isTTY === true || context.reread === undefined
  const auditState = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
  const data: AdminThreadData = { config, version, isInteractive, auditState }
  const stopMs = config.server.graceful_timeout * 1000
  const questions = spawnAdminQuestions(context, ca)
  teardown.add(async () => questions.stop())
  const thread = superviseThread<AdminThreadMessages, AdminQuestions>({
    name: 'admin',
    entry: new URL('../admin/thread.js', import.meta.url),
    data,
    supervisor: questions,
    mailboxLimit: 4096,
    readyTimeoutMs: THREAD_READY_TIMEOUT_MS,
    stopTimeoutMs: stopMs,
    restart: RESTART,
    onEvent: threadEvents(log, onBroken),
  })
  teardown.add(() => thread.stop(stopMs))
  await thread.start()
  const state = new Int32Array(auditState)
  return Object.assign(thread, {
    auditLog: () => (Atomics.load(state, 0) === 0 ? 'ok' : 'error') as CheckStatus,
    noteReload: (changes: ReloadChanges) =>
      thread.ref
        .ask('noteReload', changes, NOTE_MS)
        .catch((error: unknown) => log.error({ err: error }, 'the audit log has no entry of this reload')),
  })
}
