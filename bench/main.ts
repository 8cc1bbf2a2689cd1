#!/usr/bin/env node
/**
 * `npm run bench`: drives ACME servers through scenarios and reports what they did and what that cost.
 *
 * A command is a file of its own, and loaded when it is named.
 */

import { setImmediate } from 'node:timers/promises'
import sade from 'sade'
import { nearest } from '../src/shared/config-file/suggest.ts'
import type { Command, Session } from './command.ts'
import { Interrupted, interruptBySignals, interruptedBy } from './interrupt.ts'
import { OptionsError, type Raw } from './options/reader.ts'
import { beginDocument } from './report/document.ts'
import { progressLine } from './report/progress.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

const COMMANDS = {
  bench: () => import('./measure-servers.ts'),
  overload: () => import('./overload/command.ts'),
  abuse: () => import('./abuse/command.ts'),
  scale: () => import('./scale/command.ts'),
  profile: () => import('./profile/command.ts'),
  load: () => import('./load/command.ts'),
  micro: () => import('./micro/command.ts'),
  signer: () => import('./signer/command.ts'),
} satisfies Record<string, () => Promise<{ command: Command }>>

function beginSession(): Session {
  const interrupt = interruptBySignals()
  return {
    progress: progressLine(process.stderr),
    interrupt,
    document: beginDocument(process.argv.slice(2), () => interruptedBy(interrupt)),
  }
}

/** Runs a command and tells its end by the exit code. */
function acting({ run, takesWords = false }: Command) {
  return async (raw: Raw): Promise<void> => {
    const session = beginSession()
    try {
      if (!takesWords) refuseWords(wordsOf(raw))
      process.exitCode = (await run(raw, session)) ? 0 : EXIT_FAILED
    } catch (error) {
      if (!(error instanceof Interrupted)) process.exitCode = tellFailure(error as Error)
      // Ctrl-C may have ended a program that blocked us. The signal is heard in a whole turn of the event loop, which ends here.
      await setImmediate()
      await setImmediate()
    }
    const by = interruptedBy(session.interrupt)
    if (by === undefined) return
    console.log(`interrupted by ${by}: what was measured until then is all there is`)
    process.exitCode = session.interrupt.reason.exitCode
  }
}

/** @returns the exit code. */
function tellFailure(error: Error): number {
  const isUsage = error instanceof OptionsError
  process.stderr.write(`${error.message}\n${isUsage ? 'See --help.\n' : ''}`)
  return isUsage ? EXIT_USAGE : EXIT_FAILED
}

function wordsOf(raw: Raw): string[] {
  return (raw['_'] as unknown[]).map(String)
}

/** A mistyped command must not load a server. */
function refuseWords(words: readonly string[]): void {
  const errors = words.map((word) => {
    if (name !== 'bench') return `${word}: ${name} takes no words`
    if (Object.hasOwn(COMMANDS, word)) return `${word}: name the command before its options`
    const meant = nearest(word, Object.keys(COMMANDS))
    return `${word}: no such command${meant === undefined ? '' : `; ${meant}?`}`
  })
  if (errors.length > 0) throw new OptionsError(errors)
}

function unknown(flag: string): void {
  process.stderr.write(`unknown option ${flag}\nSee --help.\n`)
  process.exit(EXIT_USAGE)
}

/** The parser takes `-3` for an option; behind one it is its value, and the option says what is wrong with it. */
function withNegatives(words: readonly string[]): string[] {
  return words.flatMap((word, index) => {
    const isValue = (at: number) => /^-\d/.test(words[at] ?? '') && /^--[^=]+$/.test(words[at - 1] ?? '')
    if (isValue(index)) return []
    return [isValue(index + 1) ? `${word}=${words[index + 1]}` : word]
  })
}

const [node = '', script = '', word = '', ...others] = process.argv
const name = (Object.keys(COMMANDS) as (keyof typeof COMMANDS)[]).find((known) => known === word) ?? 'bench'
const { command } = await COMMANDS[name]()
const parser = sade(name === 'bench' ? 'bench' : `bench-${name}`, true).describe(command.description)
for (const example of command.examples) parser.example(example)
for (const [flag, sentence, fallback] of command.flags) parser.option(`--${flag}`, sentence, fallback)
const ofCommand = (flags: readonly string[]) => flags.filter((flag) => command.flags.some(([known]) => known === flag))
parser.action(acting(command)).parse([node, script, ...withNegatives(name === word ? others : process.argv.slice(2))], {
  boolean: ofCommand(['insecure', 'obey-retry-after', 'start', 'force']),
  // The parser would take an abbreviated hash such as 12e4567 for a number.
  string: ofCommand(['compare', 'database']),
  unknown,
})
