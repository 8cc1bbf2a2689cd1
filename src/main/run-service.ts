/** Runs a service from its start to the signal that ends it. */

import type { Logger } from 'pino'
import { formatErrors, type LoadedConfig } from '../config/load.ts'
import { planReload } from '../config/reload.ts'
import type { Config } from '../config/schema.ts'
import { createLogger, lifeLog } from '../ops/logging.ts'
import { createMetrics } from '../ops/metrics.ts'
import { ignoreUserSignals, RELOAD_OR_STOP, STOP } from '../shared/lib/environment.ts'
import { VERSION } from '../shared/lib/program-files.ts'
import type { ReloadChanges } from './messages.ts'
import { StartAbandoned } from './start-database.ts'
import { type RunningService, startService } from './start-service.ts'

interface ServeHooks {
  /** Reads the configuration again for SIGHUP. Without it SIGHUP (a closed terminal) stops the service. */
  reread(): Promise<LoadedConfig>
  onStep(title: string): void
  onReady(service: RunningService): void
  /** Called when a signal or a broken part stops the service, before running requests finish. */
  onStop(): void
}

/** @returns the exit code: 0 after an orderly stop, 1 after a broken part */
export async function runService(config: Config, hooks: Partial<ServeHooks> = {}): Promise<number> {
  const metrics = createMetrics()
  const { log, flush } = createLogger(config.logging, 'main', { metrics })
  const { reread } = hooks
  ignoreUserSignals(reread ? RELOAD_OR_STOP : STOP, (sentence) => log.warn(sentence))
  // The embedded mode prints its own progress.
  const life = reread ? lifeLog(log) : log
  let reload: LiveReload | undefined
  // Ignored until the service is up, because the file has just been read.
  if (reread) process.on('SIGHUP', () => reload?.run())
  const stop = nextStop(log, reread ? ['SIGTERM', 'SIGINT'] : ['SIGTERM', 'SIGINT', 'SIGHUP'])
  const stopping = new AbortController()
  void stop.wanted.then(() => stopping.abort())
  try {
    const service = await startService({
      config,
      version: VERSION,
      log,
      metrics,
      onStep(title) {
        log.debug(title)
        hooks.onStep?.(title)
      },
      onBroken: stop.broken,
      reread,
      stopping: stopping.signal,
    })
    life.info({ version: VERSION, directory: service.directoryUrl, pid: process.pid }, 'service ready')
    hooks.onReady?.(service)
    if (reread) reload = createLiveReload(config, reread, service.apply, life)
    const { reason, exitCode } = await stop.wanted
    const { drain_seconds: seconds } = config.server
    if (exitCode === 0 && seconds > 0) {
      life.info({ reason, seconds }, 'service draining')
      await service.drain()
    }
    life.info({ reason }, 'service stopping')
    hooks.onStop?.()
    await service.stop()
    life.info('service stopped')
    return exitCode
  } catch (error) {
    if (!(error instanceof StartAbandoned)) throw error
    const { reason, exitCode } = await stop.wanted
    life.info({ reason }, 'service stopped')
    return exitCode
  } finally {
    flush()
  }
}

/** Resolves at the first signal, broken part or uncaught error. A second signal kills the process at once. */
function nextStop(log: Logger, signals: readonly NodeJS.Signals[]) {
  let settle: (stop: { reason: string; exitCode: number }) => void
  const wanted = new Promise<{ reason: string; exitCode: number }>((resolve) => {
    settle = resolve
  })
  for (const signal of signals) {
    process.once(signal, () => {
      settle({ reason: signal, exitCode: 0 })
      // Not `process.exit`: threads with a server would abort it with a core dump.
      process.once(signal, () => process.kill(process.pid, 'SIGKILL'))
    })
  }
  // Without these handlers Node would end the process and its threads would abort with a core dump.
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      log.fatal({ err: error }, `${event} in the supervisor`)
      settle({ reason: event, exitCode: 1 })
    })
  }
  return { wanted, broken: (reason: string) => settle({ reason, exitCode: 1 }) }
}

/** SIGHUP. An unusable file changes nothing, and keys that need a restart keep their running value. */
interface LiveReload {
  /** Reads, compares and applies. Signals are handled in order, one at a time. Never rejects. */
  run(): Promise<void>
}

/** @param log writes at any level, because an operator who sends a signal waits for the line */
function createLiveReload(
  running: Config,
  reread: () => Promise<LoadedConfig>,
  apply: (config: Config, changes: ReloadChanges) => Promise<void>,
  log: Logger,
): LiveReload {
  let current = running
  let last = Promise.resolve()

  async function reload(): Promise<void> {
    const loaded = await reread()
    if (!loaded.ok) {
      log.error(
        { errors: formatErrors(loaded.errors).split('\n') },
        'the configuration file is not usable; nothing is changed',
      )
      return
    }
    const { config, live, restart } = planReload(current, loaded.config)
    const changes = { applied: live, needRestart: restart }
    await apply(config, changes)
    current = config
    log.info(changes, 'configuration read again')
  }

  return {
    run() {
      last = last.then(reload).catch((error) => log.error({ err: error }, 'the configuration could not be applied'))
      return last
    },
  }
}
