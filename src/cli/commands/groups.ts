/** Commands of two words (`db status`): messages for a missing or unknown second word. */

export interface IncompleteCommand {
  group: string
  /** The unknown word; undefined when it is missing. */
  second: string | undefined
  members: readonly string[]
}

/**
 * @param commands all commands, their words joined by spaces
 * @param words of the command line, without flags and their values
 * @returns undefined unless the first word is a group and the second none of its members
 */
export function incompleteCommand(
  commands: readonly string[],
  [group, second]: readonly string[],
): IncompleteCommand | undefined {
  if (group === undefined) return undefined
  const members = commands.flatMap((command) =>
    command.startsWith(`${group} `) ? [command.slice(group.length + 1)] : [],
  )
  return members.length === 0 || (second !== undefined && members.includes(second))
    ? undefined
    : { group, second, members }
}

/** @param argv with all flags without a value at its end */
export function wordsOf(argv: readonly string[]): string[] {
  const words: string[] = []
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] as string
    if (!word.startsWith('-')) words.push(word)
    else if (!word.includes('=') && argv[i + 1]?.startsWith('-') === false) i++
  }
  return words
}

export function groupComplaint({ group, second, members }: IncompleteCommand): string {
  return second === undefined
    ? `${group} needs one more word, one of ${members.join(', ')}`
    : `unknown command: ${group} ${second}; there are ${members.map((member) => `${group} ${member}`).join(', ')}`
}

/** @param describe returns a sentence about a command */
export function renderGroupHelp({ group, members }: IncompleteCommand, describe: (command: string) => string): string {
  const width = Math.max(...members.map((member) => `${group} ${member}`.length))
  const lines = members.map(
    (member) => `    ${`${group} ${member}`.padEnd(width)}    ${describe(`${group} ${member}`)}`,
  )
  return [
    '',
    '  Usage',
    `    $ chancery ${group} <command> [options]`,
    '',
    '  Available Commands',
    ...lines,
    '',
    '  For more info, run any command with the `--help` flag',
    `    $ chancery ${group} ${members[0]} --help`,
    '',
  ].join('\n')
}
