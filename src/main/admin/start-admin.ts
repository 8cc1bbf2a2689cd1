/** The admin thread, and the supervisor's answers to its questions. */

import type { AdminQuestions, ShownConfig } from '../../admin/admin-message.ts'
import type { CaBackend } from '../../ca/backend.ts'
import { formatErrors, type LoadedConfig } from '../../config/load.ts'
import { planReload } from '../../config/reload.ts'
import { shownSettings, shownValue } from '../../config/shown.ts'
import type { InstanceState } from '../../domain/alarms.ts'
import type { CheckStatus } from '../../domain/health.ts'
import { spawn } from '../../runtime/actor.ts'
import type { SupervisedThread } from '../../runtime/thread.ts'
import type { NoteRevocations } from '../../services/reconcile/revocation-notes.ts'
import { createTrustBundle, readRootsPem } from '../../services/trust-bundle.ts'
import { auditKeyOf } from '../../settings/admin-settings.ts'
import { furtherRootsPem } from '../../settings/issuance-settings.ts'
import { sharedWork } from '../../shared/lib/caching.ts'
import { programFile } from '../../shared/lib/program-files.ts'
import type { CertificateStore } from '../../store/certificate-store.ts'
import type { CaPart } from '../ca/start-ca.ts'
import { revocationNotes } from '../ca/start-issuance.ts'
import type { AdminThreadData, AdminThreadMessages, ReconciledFacts, ReloadChanges } from '../messages.ts'
import { type StartContext, superviseServiceThread } from '../start-context.ts'
import type { DecisionsPart } from '../start-decisions.ts'

const NOTE_MS = 5_000

export interface AdminThread extends SupervisedThread<AdminThreadMessages> {
  /** Whether the audit log still has what the thread has seen of it. */
  auditLog(): CheckStatus
  /** Leaves an entry in the audit log. Never rejects. */
  noteReload(changes: ReloadChanges): Promise<void>
  /** Leaves an entry, too. @returns whether there is one now */
  noteReconciled(facts: ReconciledFacts): Promise<boolean>
}

/** @returns undefined when the Admin API is off */
export async function startAdmin(
  context: StartContext,
  { ca, flags, flagsMemory }: Pick<CaPart, 'ca' | 'flags' | 'flagsMemory'>,
  certificates: CertificateStore,
  decisions: Pick<DecisionsPart, 'note'>,
): Promise<AdminThread | undefined> {
  const { config, version, log, parts } = context
  if (!config.admin_api.enabled) return undefined
  // The thread reads the key itself; this call reports an error once and early.
  auditKeyOf(config)
  // The embedded mode, without a file, is for a person at this machine.
  const isInteractive = process.stderr.isTTY === true || context.reread === undefined
  const data: AdminThreadData = { config, version, isInteractive, flags: flagsMemory }
  const notes = revocationNotes({ log, ca }, { certificates })
  const spawned = spawnAdminQuestions(context, ca, notes, decisions)
  const questions = parts.add('questions of the admin thread', spawned, (one) => one.stop())
  const entry = programFile('src/main/admin/admin-thread.ts')
  const options = { name: 'admin', entry, data, supervisor: questions }
  const thread = superviseServiceThread<AdminThreadMessages, AdminQuestions>(context, options)
  parts.add('admin thread', thread, (one) => one.stop(config.server.graceful_timeout * 1000))
  await thread.start()
  return Object.assign(thread, {
    auditLog: (): CheckStatus => (flags.isAuditLogBroken() ? 'error' : 'ok'),
    noteReload: (changes: ReloadChanges) =>
      thread.ref
        .ask('noteReload', changes, NOTE_MS)
        .catch((error: unknown) => log.error({ err: error }, 'the audit log has no entry of this reload')),
    noteReconciled: (facts: ReconciledFacts) =>
      thread.ref
        .ask('noteReconciled', facts, NOTE_MS)
        .then(() => true)
        .catch((error: unknown) => {
          log.warn({ err: error }, 'the audit log has no entry yet of what came back')
          return false
        }),
  })
}

const MOST_WAITING = 128
const QUESTIONS_RESTART = { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 100, windowMs: 60_000 }
/** Exceeds the time of all probes together. */
const HEALTH_DEADLINE_MS = 6_000
/** Reading the file takes this thread some 20 ms. */
const SETTINGS = { intervalMs: 250, mostWaiting: MOST_WAITING }

type Context = Pick<StartContext, 'config' | 'log' | 'now' | 'reread'>

/** The supervisor's answers: how this instance is, and its configuration. */
function spawnAdminQuestions(
  context: Context,
  ca: Pick<CaBackend, 'issuers'>,
  notes: NoteRevocations,
  decisions: Pick<DecisionsPart, 'note'>,
) {
  const settings = sharedWork(() => readSettings(context), SETTINGS)
  const roots = createTrustBundle(ca.issuers, readRootsPem(furtherRootsPem(context.config)))
  return spawn<AdminQuestions>({
    name: 'admin questions',
    mailboxLimit: MOST_WAITING,
    concurrency: MOST_WAITING,
    restart: QUESTIONS_RESTART,
    onFailure: ({ error }) => context.log.error({ err: error }, 'questions of the admin thread failed'),
    start: () => ({
      instance: () => readInstance(context, ca),
      settings,
      roots: async () => roots().pem,
      noteRevocations: async (ids) => void (await notes(ids)),
      noteDecisions: (noted) => decisions.note(noted),
    }),
  })
}

async function readInstance({ now: { supervisor } }: Context, ca: Pick<CaBackend, 'issuers'>): Promise<InstanceState> {
  if (!supervisor) throw new Error('the service is starting')
  const { checks, pool } = await supervisor.ask('health', undefined, HEALTH_DEADLINE_MS)
  const { database, ca_backend, dns_resolver } = checks
  const { status, reason, tokens = [] } = ca_backend
  return {
    database: database === 'pool_exhausted' ? database : database.status,
    databaseReason: database === 'pool_exhausted' ? undefined : database.reason,
    pool,
    caBackend: { status, reason, tokens },
    dnsResolver: dns_resolver?.status,
    issuers: ca.issuers().map(({ id, certificate, notAfter }) => ({ id, certificate, notAfter })),
  }
}

async function readSettings({ now: { config }, reread }: Context): Promise<ShownConfig> {
  const loaded = await reread?.()
  const settings = shownSettings(config, loaded?.ok ? loaded.sources : undefined)
  return { settings, file: loaded && fileOf(config, loaded) }
}

function fileOf(config: StartContext['config'], loaded: LoadedConfig): NonNullable<ShownConfig['file']> {
  if (!loaded.ok) return { path: '', errors: formatErrors(loaded.errors).split('\n'), changes: [] }
  const { live, restart } = planReload(config, loaded.config)
  const change = (by: 'SIGHUP' | 'restart') => (key: string) => ({ key, by, value: shownValue(loaded.config, key) })
  return { path: loaded.path, errors: [], changes: [...live.map(change('SIGHUP')), ...restart.map(change('restart'))] }
}
