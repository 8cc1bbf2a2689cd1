/**
 * How a command ends: its result or error becomes an exit code and plain lines on standard error.
 */

import type { Config } from '../../config/schema.ts'
import type { Scope } from './checked-config.ts'
import { UsageError } from './errors.ts'
import { configOf, type GlobalOptions } from './option-values.ts'

const EXIT_FAILED = 1
export const EXIT_USAGE = 2

/**
 * Wraps a command for the parser.
 * @param words `further` allows words behind the named arguments; a flag is suggested in their
 *   error
 * @param scope the part of the configuration that the command reads
 */
export function run<A extends [...string[], GlobalOptions]>(
  command: (...args: A) => Promise<number>,
  words: 'named' | 'further' | `--${string}` = 'named',
  scope: Scope = 'service',
): (...args: A) => Promise<void> {
  return async (...args) => {
    const options = args.at(-1) as GlobalOptions
    try {
      if (words !== 'further' && options._.length > 0) {
        const advice = words === 'named' ? '' : `; did you mean ${words} ${options._[0]}?`
        throw new UsageError(`one word too many: ${options._[0]}${advice}`)
      }
      // For every command: a check alone must not cause a migration.
      process.exitCode = options['validate-only']
        ? await (await import('./checked-config.ts')).validateOnly(options, scope)
        : await command(...args)
    } catch (error) {
      if (error instanceof UsageError) {
        complain(error.message)
        return
      }
      const message = error instanceof Error ? error.message : String(error)
      process.stderr.write(`chancery: ${options.debug && error instanceof Error ? error.stack : message}\n`)
      process.exitCode = EXIT_FAILED
    }
  }
}

/**
 * The same for a command that needs the configuration. Its warnings are printed by `serve` only.
 * @param command gets the configuration, then the command's arguments and the options
 */
export function runWithConfig<A extends (string | GlobalOptions)[]>(
  command: (config: Config, ...args: A) => Promise<number>,
  words?: Parameters<typeof run>[1],
): (...args: [...string[], GlobalOptions]) => Promise<void> {
  return run(async (...args) => {
    const options = args.at(-1) as GlobalOptions
    const { readConfigFile } = await import('./config-file.ts')
    return command(await readConfigFile(configOf(options)), ...(args as unknown as A))
  }, words)
}

/** Prints what is wrong with the command line, and where to read more. */
export function complain(message: string, command = 'chancery'): void {
  process.stderr.write(`chancery: ${message}; see ${command} --help\n`)
  process.exitCode = EXIT_USAGE
}
