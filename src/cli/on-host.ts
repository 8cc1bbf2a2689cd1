/** Commands that need the host of the service. */

import { type Command, command, type Options } from '../shared/command-line.ts'

export interface HostCommand extends Command {
  /** Why it does not work from another machine. */
  why: string
}

/** Its help says why it needs the host, as does the refusal from another machine. */
export function onHost<O extends Options>(why: string, one: Command<O>): HostCommand {
  const about = [...[one.about].flat(), `Works on the host only, with -c FILE: ${why}.`]
  return { ...command({ ...one, about }), why }
}
