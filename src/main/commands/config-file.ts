/** The configuration file of a command: found, read, and its faults printed in full. */

import { formatErrors, type LoadedConfig, loadConfig } from '../../config/load.ts'
import type { Config } from '../../config/schema.ts'

/** Ends a command with sentences for the operator instead of a stack. */
export class CommandError extends Error {}

/** The file that a command is about, read and checked. @throws CommandError when none is named */
export async function loadConfigFile(file: string | undefined): Promise<LoadedConfig> {
  return loadConfig(nameOf(file), process.env)
}

/** @throws CommandError with every fault of the file, one a line */
export async function readConfigFile(file: string | undefined): Promise<Config> {
  const loaded = await loadConfigFile(file)
  if (!loaded.ok) throw new CommandError(`${nameOf(file)} is not usable:\n${formatErrors(loaded.errors)}`)
  if (loaded.warnings.length > 0) process.stderr.write(`${formatErrors(loaded.warnings).replace(/^/gm, 'warning: ')}\n`)
  return loaded.config
}

function nameOf(file: string | undefined): string {
  // A variable that is set to nothing counts as absent, as in the file itself.
  const name = file ?? (process.env.SERVICE_CONFIG || undefined)
  if (name === undefined) throw new CommandError('no configuration: give -c FILE or set SERVICE_CONFIG')
  return name
}
