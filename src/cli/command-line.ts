/** Reads the command line of chancery and runs the command it names. */

import { joinNegativeValues } from '../shared/lib/negative-values.ts'
import { groupComplaint, incompleteCommand, renderGroupHelp, wordsOf } from './commands/groups.ts'
import { complain, EXIT_USAGE } from './commands/run.ts'
import { LIST_TEXTS, LONE_FLAGS, program } from './program.ts'

/**
 * Moves flags without a value to the end. Before a command (`chancery -c FILE --debug db status`)
 * the parser would take the next word for their value.
 */
function flagsLast(argv: readonly string[]): string[] {
  return [...argv.filter((word) => !LONE_FLAGS.has(word)), ...argv.filter((word) => LONE_FLAGS.has(word))]
}

const [node, script, ...typed] = process.argv
const words = joinNegativeValues(flagsLast(typed))
const parsing = {
  unknown(flag: string) {
    complain(`unknown option: ${flag}`)
    process.exit()
  },
  lazy: true as const,
  // Options that stay text: the parser would turn 007 into a number.
  string: ['validator', 'kid', 'label', 'allow', 'csr-profile', 'profile', 'preapprove', ...LIST_TEXTS],
}
const { tree } = program as unknown as { tree: Record<string, { describe?: readonly string[] }> }
const incomplete = incompleteCommand(Object.keys(tree), wordsOf(words))

async function parseAndRun(): Promise<void> {
  // For a missing argument the parser prints a message and ends the process with 1.
  const wrongUsage = () => {
    process.exitCode = EXIT_USAGE
  }
  process.once('exit', wrongUsage)
  const parsed = program.parse([node ?? '', script ?? '', ...words], parsing)
  process.off('exit', wrongUsage)
  if (parsed) await parsed.handler.apply(null, parsed.args)
  else if (process.exitCode === undefined)
    process.exitCode = words.some((word) => /^(?:-h|--help|-v|--version)$/.test(word)) ? 0 : EXIT_USAGE
}

if (!incomplete || words.some((word) => /^(?:-v|--version)$/.test(word))) await parseAndRun()
else if (words.some((word) => /^(?:-h|--help)$/.test(word)))
  console.log(renderGroupHelp(incomplete, (command) => tree[command]?.describe?.[0] ?? ''))
else complain(groupComplaint(incomplete), `chancery ${incomplete.group}`)
