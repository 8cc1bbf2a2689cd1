/** A command of chancery: its common options, and the configuration where it needs that. */

import type { Config } from '../config/schema.ts'
import { isGiven, type Options, type Values } from '../shared/command-line/options.ts'
import { type Command, command } from '../shared/command-line/program.ts'
import type { CommonOptions } from './values.ts'

export const JSON_OPTION = { json: isGiven('Print JSON') }

type Own<O extends Options, A extends unknown[]> = Omit<Command<O>, 'run'> & {
  run(...args: [...A, options: Values<O> & CommonOptions, words: readonly string[]]): Promise<number>
}

/** A command of the service; `--validate-only` beside any of them must not cause a migration. */
export function plain<O extends Options>(
  { run, ...rest }: Own<O, []>,
  scope: 'service' | 'perspective' = 'service',
): Command {
  return command<O>({
    ...rest,
    async run(values, words) {
      const options = values as Values<O> & CommonOptions
      if (!options['validate-only']) return run(options, words)
      return (await import('./commands/checked-config.ts')).validateOnly(options, scope)
    },
  })
}

/** A command that needs the configuration. Its warnings are printed by `serve` only. */
export function configured<O extends Options>({ run, ...rest }: Own<O, [config: Config]>): Command {
  return plain<O>({
    ...rest,
    run: async (options, words) =>
      run(await (await import('./commands/config-file.ts')).readConfigFile(options.config), options, words),
  })
}
