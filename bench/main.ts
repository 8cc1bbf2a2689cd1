#!/usr/bin/env node
/**
 * `npm run bench`: drives ACME servers through scenarios and reports results and costs.
 *
 * A command is a file of its own, and loaded when it is named.
 */

import { type Command as ProgramCommand, type Raw, runProgram } from '../src/shared/command-line.ts'
import type { Command } from './contest.ts'
import { beginDocument, writeFiles } from './report/document.ts'
import { Interrupted, interruptBySignals, progressLine } from './surroundings.ts'

const COMMANDS: Record<string, () => Promise<{ command: Command }>> = {
  bench: () => import('./contest.ts'),
  ledger: () => import('./ledger/command.ts'),
  overload: () => import('./overload.ts'),
}

const typed = process.argv.slice(2)
const [first = ''] = typed
const usage = /^[^-]/.test(first) ? first : ''
const load = COMMANDS[usage === '' ? 'bench' : usage]
const commands = load ? [commandOf(usage, (await load()).command)] : Object.keys(COMMANDS).map(mistyped)
await runProgram({ name: 'bench', version: '', commands }, typed)

function commandOf(usage: string, { run, ...described }: Command): ProgramCommand {
  return { ...described, usage, run: (_values, _words, raw) => act(run, raw) }
}

/** A command that is known by name only, because the word that was typed is another. */
function mistyped(usage: string): ProgramCommand {
  return { usage, about: '', run: () => Promise.reject(new Error(`${usage} is not loaded`)) }
}

/** @returns the exit code */
async function act(run: Command['run'], raw: Raw): Promise<number> {
  const interrupt = interruptBySignals()
  const by = () => (interrupt.reason instanceof Interrupted ? interrupt.reason : undefined)
  const document = beginDocument(process.argv.slice(2))
  let exitCode = 1
  try {
    const { plan, parts, isGood } = await run(raw, { progress: progressLine(process.stderr), interrupt })
    writeFiles(plan, document(parts, by()?.by))
    exitCode = isGood ? 0 : 1
  } catch (error) {
    if (!by() && !(error instanceof Interrupted)) throw error
    if (!(error instanceof Interrupted)) console.error((error as Error).message)
  }
  const end = by()
  if (!end) return exitCode
  console.log(`interrupted by ${end.by}: what was measured until then is all there is`)
  return end.exitCode
}
