/**
 * `chancery serve`: the service of a configuration. With --dev and without a configuration, the
 * embedded mode.
 */

import path from 'node:path'
import type { Config } from '../../config/schema.ts'
import { requireUws } from '../../http/uws-check.ts'
import { runService } from '../../main/run-service.ts'
import { serviceConfig } from './checked-config.ts'
import { loadConfigFile } from './config-file.ts'
import { UsageError } from './errors.ts'
import { configOf, type GlobalOptions, portOf, type Text, textOf } from './option-values.ts'

export interface DevFlags {
  'data-dir'?: string
  port?: number
  'http01-port'?: number
  'dns01-port'?: number
  validator?: Text
  'tlsalpn01-port'?: number
  'log-level'?: Config['logging']['level']
  workers?: number
  crl?: boolean
  'crl-port'?: number
}

/** @returns the exit code. @throws CommandError */
export async function serve(options: GlobalOptions & DevFlags): Promise<number> {
  // This command is the default, and a mistyped command must not start a service.
  if (options._.length > 0) throw new UsageError(`unknown command: ${options._.join(' ')}`)
  await requireUws()
  if (options.dev && options.config === undefined) return serveEmbedded(options)
  const config = await serviceConfig(options)
  return runService(withFlags(config, options), {
    async reread() {
      const loaded = await loadConfigFile(configOf(options), options.dev)
      return loaded.ok ? { ...loaded, config: withFlags(loaded.config, options) } : loaded
    },
  })
}

/** Loads the embedded database, which a service with a configuration does not need. */
async function serveEmbedded(options: GlobalOptions & DevFlags): Promise<number> {
  const embedded = {
    dataDir: path.resolve(options['data-dir'] ?? 'data'),
    port: portOf(options.port, '--port'),
    http01Port: portOf(options['http01-port'], '--http01-port'),
    validator: textOf(options.validator, '--validator'),
    dns01Port: options['dns01-port'] === undefined ? undefined : portOf(options['dns01-port'], '--dns01-port'),
    tlsAlpn01Port: portOf(options['tlsalpn01-port'], '--tlsalpn01-port'),
    logLevel: options.debug ? 'DEBUG' : (options['log-level'] ?? 'WARNING'),
    workers: options.workers,
    crlPort: options.crl === true ? portOf(options['crl-port'], '--crl-port') : undefined,
  } as const
  return (await import('../../dev/run.ts')).runEmbedded(embedded)
}

/** Log flags on the command line override the file. */
function withFlags(config: Config, { debug, dev }: GlobalOptions): Config {
  const level = debug ? ('DEBUG' as const) : config.logging.level
  const format = dev ? ('human' as const) : config.logging.format
  return { ...config, logging: { ...config.logging, level, format } }
}
