/** The configuration file of a command: finds it, reads it, and prints all of its errors. */

import { type ConfigError, type ConfigWarning, formatErrors, type LoadedConfig, loadConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { UsageError } from '../shared/command-line.ts'
import type { FileFindings } from './configured-files.ts'
import { connectAsServiceUser } from './peer-relay.ts'
import { CommandError } from './values.ts'

/** Reads and checks the file. @throws UsageError when neither flag nor variable names one */
export async function loadConfigFile(file: string | undefined, development = false): Promise<LoadedConfig> {
  return loadConfig(nameOfConfig(file), process.env, { development })
}

/**
 * @param warnings `said` prints them on standard error, for commands about the configuration
 * @param development `--dev`: skips rules that only keep a service from starting; `unsaid` skips
 *   them, too
 * @throws CommandError with every error of the file, one a line
 */
export async function readConfigFile(
  file: string | undefined,
  warnings: 'said' | 'unsaid' = 'unsaid',
  development = false,
): Promise<Config> {
  const loaded = await loadConfigFile(file, development || warnings === 'unsaid')
  if (!loaded.ok) throw new CommandError(complaint(nameOfConfig(file), loaded.errors))
  if (warnings === 'said') warn(loaded.warnings)
  else await connectAsServiceUser(loaded.config)
  return loaded.config
}

/**
 * Prints warnings about the files that a configuration names.
 * @throws CommandError with all errors in them, one a line
 */
export function requireFiles(file: string | undefined, { errors, warnings }: FileFindings): void {
  warn(warnings)
  if (errors.length > 0) throw new CommandError(complaint(nameOfConfig(file), errors))
}

function warn(warnings: readonly ConfigWarning[]): void {
  if (warnings.length > 0) process.stderr.write(`${formatErrors(warnings).replace(/^/gm, 'warning: ')}\n`)
}

/**
 * @param sections that the command reads; the others may be missing
 * @throws CommandError with every error in them
 */
export async function readConfigSections(file: string | undefined, sections: readonly string[]): Promise<Config> {
  const loaded = await loadConfig(nameOfConfig(file), process.env, { sections })
  if (!loaded.ok) throw new CommandError(complaint(nameOfConfig(file), loaded.errors))
  return loaded.config
}

function complaint(name: string, errors: readonly ConfigError[]): string {
  // An error about the whole file, which could not be read.
  const [first] = errors
  if (first && errors.length === 1 && first.path === '' && first.line === undefined) return `${name}: ${first.message}`
  return `${name} is not usable:\n${formatErrors(errors)}`
}

/** @throws UsageError when neither flag nor variable names one */
export function nameOfConfig(file: string | undefined): string {
  // An empty variable counts as absent, as in the file itself.
  const name = file ?? (process.env.SERVICE_CONFIG || undefined)
  if (name === undefined) throw new UsageError('no configuration: give -c FILE or set SERVICE_CONFIG')
  return name
}
