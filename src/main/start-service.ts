/**
 * The service's life: the parts start in order and stop in reverse.
 *
 * A start that fails stops the parts that are up.
 */

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasSigner } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { loadHooks } from '../events/hooks/load-hooks.ts'
import { assertPortFree, fileLimitWarning } from '../http/start-checks.ts'
import { PINO_LEVELS } from '../ops/logging.ts'
import { eabSecretBox } from '../settings/account-settings.ts'
import { liveSettings, urlSettings } from '../settings/server-settings.ts'
import { loadChallengeMethods } from '../validation/extensions.ts'
import { startAdmin } from './admin/start-admin.ts'
import { requireCaModules } from './ca/csr-backends.ts'
import { startCa, startIssuance } from './ca/start-ca.ts'
import { startCrls } from './ca/start-crl.ts'
import { startReconciliation } from './ca/start-reconciliation.ts'
import { startEvents } from './events/start-events.ts'
import { startFronts } from './front/start-fronts.ts'
import type { ReloadChanges } from './messages.ts'
import { Parts } from './parts.ts'
import { startBackground, startSupervisor } from './start-background.ts'
import type { StartContext } from './start-context.ts'
import { applyBlockedKeys, awaitDatabase, prepareSchema, startDatabase } from './start-database.ts'
import { startDecisions } from './start-decisions.ts'
import { startValidation } from './start-validation.ts'
import { countCommandRevocations, followSwitches } from './watches.ts'

interface StartOptions
  extends Pick<StartContext, 'config' | 'version' | 'log' | 'metrics' | 'onStep' | 'onBroken' | 'reread'> {
  /** Aborts the wait for an unreachable database. */
  stopping: AbortSignal
}

export interface RunningService {
  directoryUrl: string
  signerPid(): number | undefined
  /** Applies the live keys of a configuration to every current and future thread. */
  apply(config: Config, changes: ReloadChanges): Promise<void>
  /** /readyz is 503 from now on, and requests are served, one a connection; resolves after `server.drain_seconds`. */
  drain(): Promise<void>
  /** Resolves when all parts are down. */
  stop(): Promise<void>
}

/** @throws StartAbandoned, or Error in a plain sentence when the start fails; started parts are stopped again */
export async function startService({ stopping, ...options }: StartOptions): Promise<RunningService> {
  const parts = new Parts()
  const takeApart = () =>
    parts.stop((part, error) => options.log.error({ part, err: error }, 'a part did not stop cleanly'))
  const now = { config: options.config, draining: false, stopping: false }
  const context: StartContext = { ...options, parts, fronts: [], now }
  try {
    return { ...(await start(context, stopping)), stop: takeApart }
  } catch (error) {
    await takeApart()
    throw error
  }
}

async function start(context: StartContext, stopping: AbortSignal) {
  const { config, log, now, onStep } = context
  await requireFreePorts(config)
  const tooFew = fileLimitWarning(config.server.overload.max_connections, readFileSync('/proc/self/limits', 'utf8'))
  if (tooFew !== undefined) log.warn({ event: 'file_limit' }, tooFew)
  // Every front reads the secret itself; this call reports an error once and early.
  eabSecretBox(config)
  const methods = await loadChallengeMethods(config)
  const hooks = await loadHooks(config)
  await requireCaModules(config)
  warnOfAutoAccept(context)
  onStep('checking the database')
  await awaitDatabase(() => prepareSchema(config, log), log, stopping)
  // Checked again, because the wait may have taken hours.
  await requireFreePorts(config)
  const database = await startDatabase(context)

  if (hasSigner(config)) onStep('starting the signer')
  const ca = await startCa(context)
  const decisions = await startDecisions(context, database, ca.ca, stopping)
  const issuance = await startIssuance(context, database, ca, methods)

  onStep('starting the validation workers')
  const validation = await startValidation(context, database, issuance, methods)
  const switches = await followSwitches(database.db, ca.flags, log)
  context.parts.add('switches', switches, (one) => one.stop())
  const revocations = countCommandRevocations(database.db, context.metrics, log)
  context.parts.add('revocations by commands', revocations, (one) => one.stop())

  const reconciliation = startReconciliation(context, database, ca, issuance)
  if (reconciliation) decisions.restWhile(reconciliation.isCopied)
  const crl = await startCrls(context, database, ca, issuance, reconciliation?.reconciliation)
  const events = await startEvents(context, database, hooks)
  const admin = await startAdmin(context, ca, issuance.stores.certificates, decisions)
  if (admin) reconciliation?.reportTo(admin)
  const earlier = { methods, database, ca, issuance, validation }
  const background = startBackground(
    context,
    earlier,
    { crl, reconciliation, incarnation: () => decisions.incarnation },
    admin,
  )
  const supervisor = startSupervisor(context, earlier, {
    noteDecisions: (noted) => decisions.note(noted),
    crl,
    reconciliation,
    background,
    admin,
    events,
  })
  now.supervisor = supervisor

  onStep(`starting ${config.server.workers} front threads`)
  const fronts = await startFronts(context, earlier, crl, { supervisor, admin })

  return {
    directoryUrl: `${urlSettings(config).externalUrl}${config.api.base_path}${config.acme.paths.directory}`,
    signerPid: () => ca.signer?.pid(),
    async apply(next: Config, changes: ReloadChanges) {
      await applyBlockedKeys(next, database.db, log)
      now.config = next
      await events.apply(next)
      background.wake()
      log.level = PINO_LEVELS[liveSettings(next).logLevel]
      await fronts.apply(next)
      await admin?.noteReload(changes)
    },
    async drain() {
      now.draining = true
      const over = sleep(config.server.drain_seconds * 1000)
      await fronts.closeAfterReplies()
      await over
    },
  }
}

function warnOfAutoAccept({ config, log }: StartContext): void {
  if (!config.challenges.auto_accept) return
  log.warn(
    { event: 'auto_accept' },
    'challenges.auto_accept is on: NO CONTROL OVER IDENTIFIERS IS CHECKED; every name that may be asked for is valid at once',
  )
}

/**
 * Fronts and the admin thread share their ports, so without this check they would silently share them with another program.
 */
async function requireFreePorts({ server, crl, admin_api: { enabled, listen } }: Config): Promise<void> {
  const places = [{ bind: server.bind, port: server.port, key: 'server.port' }]
  if (crl.enabled && crl.http_port !== null)
    places.push({ bind: server.bind, port: crl.http_port, key: 'crl.http_port' })
  if (enabled && listen) places.push({ bind: listen.bind, port: listen.port, key: 'admin_api.listen.port' })
  for (const { bind, port, key } of places) {
    try {
      await assertPortFree(bind, port)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const reason = code === 'EADDRINUSE' ? 'it is in use' : `${code}`
      throw new Error(`cannot listen on ${bind}:${port}: ${reason} (${key})`, { cause })
    }
  }
}
