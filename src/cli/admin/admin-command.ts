/** Commands on the Admin API: with `-c FILE` they work on the database, with `--server URL` on the service. */

import type { Config } from '../../config/schema.ts'
import type { Command, Options, Values } from '../../shared/command-line.ts'
import type { AdminCaller } from './admin-caller.ts'

export interface AdminCommand<O extends Options = Options>
  extends Pick<Command<O>, 'usage' | 'about' | 'options' | 'further'> {
  /** The words after the common options; without examples the help makes one of the usage. */
  examples?: readonly string[]
  /** Takes `--emergency`: its operation may need another person (`approval` of the endpoint). */
  approval?: true | undefined
  /** Works on the schema of another release, too. */
  anySchema?: true
  /**
   * @param words values of the arguments in the usage, and further ones
   * @param config undefined with `--server`
   * @returns the exit code
   */
  run(
    caller: AdminCaller,
    values: Values<O> & { json: boolean },
    words: readonly string[],
    config?: Config,
  ): Promise<number>
}

/** Lets the options of a command give its values their types. */
export function adminCommand<O extends Options>(one: AdminCommand<O>): AdminCommand {
  return one as unknown as AdminCommand
}

/** @param begin of the command line, such as `-c config.yaml` */
export function examplesOf({ examples, usage }: AdminCommand, begin: string): readonly string[] {
  return (examples ?? [usage.replaceAll(/<[^>]+>/g, '…')]).map((example) => `${begin} ${example}`)
}
