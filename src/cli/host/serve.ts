/**
 * The servers, which run until a signal: `chancery serve` is the service of a configuration, or the embedded mode with --dev
 * and without a configuration. `chancery perspective` serves checks for other instances.
 */

import path from 'node:path'
import type { Config } from '../../config/schema.ts'
import { requireUws } from '../../http/start-checks.ts'
import { runService } from '../../main/run-service.ts'
import { startPerspective } from '../../mpic/perspective-service.ts'
import { createLogger, lifeLog } from '../../ops/logging.ts'
import { perspectiveSettings } from '../../settings/validation-settings.ts'
import { UsageError, type Values } from '../../shared/command-line.ts'
import { ignoreUserSignals, STOP } from '../../shared/lib/environment.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { perspectiveConfig, serviceConfig } from '../checked-config.ts'
import { loadConfigFile } from '../config-file.ts'
import { CommandError, type CommonOptions } from '../values.ts'
import type { DEV_OPTIONS } from './dev-options.ts'

type DevOptions = CommonOptions & Values<typeof DEV_OPTIONS>

/** @returns the exit code. @throws CommandError */
export async function serve(options: DevOptions): Promise<number> {
  await requireUws()
  if (options.dev && options.config === undefined) return serveEmbedded(options)
  const config = await serviceConfig(options)
  return runService(withFlags(config, options), {
    async reread() {
      const loaded = await loadConfigFile(options.config, options.dev)
      return loaded.ok ? { ...loaded, config: withFlags(loaded.config, options) } : loaded
    },
  })
}

/** Loads the embedded database, which a service with a configuration does not need. */
async function serveEmbedded(options: DevOptions): Promise<number> {
  if (options['dns-persist'] && options['dns01-port'] === undefined)
    throw new UsageError('--dns-persist: needs --dns01-port, where its records are looked up')
  const embedded = {
    dataDir: path.resolve(options['data-dir']),
    port: options.port,
    http01Port: options['http01-port'],
    validator: options.validator,
    dns01Port: options['dns01-port'],
    dnsPersist: options['dns-persist'],
    tlsAlpn01Port: options['tlsalpn01-port'],
    logLevel: options.debug ? 'DEBUG' : options['log-level'],
    workers: options.workers,
    consolePort: options.console ? options['console-port'] : undefined,
    crlPort: options.crl ? options['crl-port'] : undefined,
  } as const
  const { runEmbedded } = await import('../../dev/run.ts')
  return runEmbedded(embedded).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new CommandError('--dev without -c needs the development packages: run npm ci', { cause: error })
  })
}

/** Log flags on the command line override the file. */
function withFlags(config: Config, { debug, dev }: DevOptions): Config {
  const level = debug ? ('DEBUG' as const) : config.logging.level
  const format = dev ? ('human' as const) : config.logging.format
  return { ...config, logging: { ...config.logging, level, format } }
}

/** Time for running checks to end after the signal; each has its own time-out. */
const GRACEFUL_MS = 30_000

/** @returns the exit code. @throws CommandError when it cannot start */
export async function runPerspective(options: CommonOptions): Promise<number> {
  const config = await perspectiveConfig(options)
  const { log, flush } = createLogger(config.logging, 'perspective')
  ignoreUserSignals(STOP, (sentence) => log.warn(sentence))
  const life = lifeLog(log)
  const stopped = new Promise<NodeJS.Signals>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, resolve)
  })
  try {
    const perspective = await startPerspective(perspectiveSettings(config, VERSION), log).catch((error: unknown) => {
      throw new CommandError((error as Error).message)
    })
    life.info({ version: VERSION, port: perspective.port, pid: process.pid }, 'perspective ready')
    const reason = await stopped
    life.info({ reason }, 'perspective stopping')
    await perspective.stop(GRACEFUL_MS)
    return 0
  } finally {
    flush()
  }
}
