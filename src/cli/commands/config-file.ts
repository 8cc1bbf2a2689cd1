/** The configuration file of a command: found, read, and its faults printed in full. */

import { type ConfigError, type ConfigWarning, formatErrors, type LoadedConfig, loadConfig } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'
import type { FileFindings } from '../configured-files.ts'
import { CommandError, UsageError } from './errors.ts'

/** The file that a command is about, read and checked. @throws UsageError when none is named */
export async function loadConfigFile(file: string | undefined, development = false): Promise<LoadedConfig> {
  return loadConfig(nameOf(file), process.env, { development })
}

/**
 * @param development `--dev`: rules that only keep a service from starting do not hold; nor do they
 *   for those others.
 * @param warnings `said` on standard error, for commands that are about the configuration; the
 *   others have their own matter.
 * @throws CommandError with every fault of the file, one a line
 */
export async function readConfigFile(
  file: string | undefined,
  warnings: 'said' | 'unsaid' = 'unsaid',
  development = false,
): Promise<Config> {
  const loaded = await loadConfigFile(file, development || warnings === 'unsaid')
  if (!loaded.ok) throw new CommandError(complaint(nameOf(file), loaded.errors))
  if (warnings === 'said') warn(loaded.warnings)
  return loaded.config
}

/**
 * Says what is remarkable about the files that a configuration names.
 * @throws CommandError with everything that is wrong with them, one a line
 */
export function requireFiles(file: string | undefined, { errors, warnings }: FileFindings): void {
  warn(warnings)
  if (errors.length > 0) throw new CommandError(complaint(nameOf(file), errors))
}

function warn(warnings: readonly ConfigWarning[]): void {
  if (warnings.length > 0) process.stderr.write(`${formatErrors(warnings).replace(/^/gm, 'warning: ')}\n`)
}

/**
 * @param sections that the command reads; the others may be missing.
 * @throws CommandError with every fault in them
 */
export async function readConfigSections(file: string | undefined, sections: readonly string[]): Promise<Config> {
  const loaded = await loadConfig(nameOf(file), process.env, { sections })
  if (!loaded.ok) throw new CommandError(complaint(nameOf(file), loaded.errors))
  return loaded.config
}

function complaint(name: string, errors: readonly ConfigError[]): string {
  // The file as a whole, which was not even read.
  const [first] = errors
  if (first && errors.length === 1 && first.path === '' && first.line === undefined) return `${name}: ${first.message}`
  return `${name} is not usable:\n${formatErrors(errors)}`
}

function nameOf(file: string | undefined): string {
  // A variable that is set to nothing counts as absent, as in the file itself.
  const name = file ?? (process.env.SERVICE_CONFIG || undefined)
  if (name === undefined) throw new UsageError('no configuration: give -c FILE or set SERVICE_CONFIG')
  return name
}
