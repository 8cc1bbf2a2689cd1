/** Commands on operations of the Admin API: with `-c FILE` on the database, with `--server URL` on the service. */

import type { Config } from '../../config/schema.ts'
import type { Command, Options, Values } from '../../shared/command-line.ts'
import type { OperationCaller } from './caller.ts'

export interface SharedCommand<O extends Options = Options>
  extends Pick<Command<O>, 'usage' | 'about' | 'options' | 'further'> {
  /** Without what comes before them. */
  examples?: readonly string[]
  /** Works between two releases, too. */
  anySchema?: true
  /**
   * @param words values of the arguments in the usage, and further ones
   * @param config undefined with `--server`
   * @returns the exit code
   */
  run(
    caller: OperationCaller,
    values: Values<O> & { json: boolean },
    words: readonly string[],
    config?: Config,
  ): Promise<number>
}

/** Lets the options of a command give its values their types. */
export function shared<O extends Options>(one: SharedCommand<O>): SharedCommand {
  return one as unknown as SharedCommand
}

/** Its examples behind what the command line begins with, or one made of its usage. */
export function examplesOf({ examples, usage }: SharedCommand, begin: string): readonly string[] {
  return (examples ?? [usage.replaceAll(/<[^>]+>/g, '…')]).map((example) => `${begin} ${example}`)
}
