#!/usr/bin/env node
/**
 * `npm run bench`: drives ACME servers through scenarios and reports what they did and what that cost.
 *
 * A command is a file of its own, and loaded when it is named.
 */

import sade from 'sade'
import { nearest } from '../src/shared/config-file/suggest.ts'
import type { Command } from './command.ts'
import { OptionsError, type Raw } from './flags.ts'
import { Interrupted, interruptBySignals } from './interrupt.ts'
import { beginDocument, writeFiles } from './report/document.ts'
import { progressLine } from './report/progress.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

const COMMANDS = {
  bench: () => import('./measure-servers.ts'),
  overload: () => import('./overload.ts'),
} satisfies Record<string, () => Promise<{ command: Command }>>
type Name = keyof typeof COMMANDS

/** Runs a command and tells its end by the exit code. */
async function act(name: Name, { run }: Command, raw: Raw): Promise<void> {
  const interrupt = interruptBySignals()
  const by = () => (interrupt.reason instanceof Interrupted ? interrupt.reason : undefined)
  const document = beginDocument(process.argv.slice(2))
  try {
    refuseWords(name, (raw['_'] as unknown[]).map(String))
    const { plan, parts, isGood } = await run(raw, { progress: progressLine(process.stderr), interrupt })
    writeFiles(plan, document(parts, by()?.by))
    process.exitCode = isGood ? 0 : EXIT_FAILED
  } catch (error) {
    if (!(error instanceof Interrupted)) process.exitCode = tellFailure(error as Error)
  }
  const end = by()
  if (!end) return
  console.log(`interrupted by ${end.by}: what was measured until then is all there is`)
  process.exitCode = end.exitCode
}

/** @returns the exit code */
function tellFailure(error: Error): number {
  const isUsage = error instanceof OptionsError
  process.stderr.write(`${error.message}\n${isUsage ? 'See --help.\n' : ''}`)
  return isUsage ? EXIT_USAGE : EXIT_FAILED
}

/** A mistyped command must not load a server. */
function refuseWords(name: Name, words: readonly string[]): void {
  const errors = words.map((word) => {
    if (Object.hasOwn(COMMANDS, word)) return `${word}: name the command before its options`
    const meant = name === 'bench' ? nearest(word, Object.keys(COMMANDS)) : undefined
    return `${word}: no such command${meant === undefined ? '' : `; ${meant}?`}`
  })
  if (errors.length > 0) throw new OptionsError(errors)
}

const [node = '', script = '', word = '', ...others] = process.argv
const name = (Object.keys(COMMANDS) as Name[]).find((known) => known === word) ?? 'bench'
const { command } = await COMMANDS[name]()
const flags = Object.entries(command.flags)
// The parser takes no name of several words, and shows whatever stands here.
const parser = Object.assign(sade('bench', true), { bin: `npm run bench --${name === 'bench' ? '' : ` ${name}`}` })
parser.describe(command.description)
for (const example of command.examples) parser.example(example)
for (const [flag, { sentence, fallback }] of flags) parser.option(`--${flag}`, sentence, fallback)
parser.action((raw: Raw) => act(name, command, raw))
parser.parse([node, script, ...(name === word ? others : process.argv.slice(2))], {
  boolean: flags.filter(([, { isSwitch }]) => isSwitch).map(([flag]) => flag),
  // The parser would take an abbreviated hash such as 12e4567 for a number.
  string: flags.some(([flag]) => flag === 'compare') ? ['compare'] : [],
  unknown(flag: string): void {
    process.stderr.write(`unknown option ${flag}\nSee --help.\n`)
    process.exit(EXIT_USAGE)
  },
})
