/**
 * Commands of two words (`db status`): what is said when the second word is missing, or is none.
 */

export interface IncompleteCommand {
  group: string
  /** The word that is none of `members`; undefined when there is none at all. */
  second: string | undefined
  members: readonly string[]
}

/**
 * @param commands all there are, their words joined by spaces
 * @param words of the command line, without flags and their values
 * @returns undefined unless the first word begins commands and the second completes none of them
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

/** @param argv with every flag that takes no value at its end */
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

/** @param describe what a command does, in a sentence */
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
