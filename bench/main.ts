#!/usr/bin/env node
/** `npm run bench`: drives an ACME server through scenarios and reports what it did and what that cost. */

import { writeFileSync } from 'node:fs'
import sade from 'sade'
import { compareWith } from './compare/compare.ts'
import { LOAD_FLAGS, LoadUsage, load } from './load/command.ts'
import { type CompareOptions, FLAGS, type Options, OptionsError, parseOptions } from './options.ts'
import { PROFILE_FLAGS, parseProfileOptions } from './profile/command.ts'
import { profileServer } from './profile/profile.ts'
import { renderProfile } from './profile/text.ts'
import { renderComparison } from './report/comparison-text.ts'
import { progressLine } from './report/progress.ts'
import { isGood, type Result } from './report/result.ts'
import { renderText } from './report/text.ts'
import { runScenario } from './run.ts'
import { benchSigner, SIGNER_FLAGS, SignerBenchUsage } from './signer/command.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

/** Runs until all scenarios are done; the first Ctrl-C ends the measured time, the second ends the program. */
async function run(options: Options): Promise<number> {
  const interrupt = new AbortController()
  process.once('SIGINT', () => interrupt.abort())

  const progress = progressLine(process.stderr)
  const results: Result[] = []
  for (const scenario of options.scenarios) {
    if (interrupt.signal.aborted) break
    const result = await runScenario(options, scenario, progress, interrupt.signal)
    process.stdout.write(`${results.length > 0 ? '\n' : ''}${renderText(result)}`)
    results.push(result)
  }
  if (options.jsonFile !== undefined) writeFileSync(options.jsonFile, `${JSON.stringify({ results }, null, 2)}\n`)
  return results.length === options.scenarios.length && results.every(isGood) ? 0 : EXIT_FAILED
}

/** The first signal ends it, and further ones do not keep it from taking down what it has started. */
async function runComparison(settings: CompareOptions, options: Options): Promise<number> {
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupt.abort())

  const comparison = await compareWith(settings, options, progressLine(process.stderr), interrupt.signal).catch(
    (error) => {
      throw interrupt.signal.aborted ? new Error('interrupted before the first round', { cause: error }) : error
    },
  )
  process.stdout.write(renderComparison(comparison))
  if (options.jsonFile !== undefined) writeFileSync(options.jsonFile, `${JSON.stringify({ comparison }, null, 2)}\n`)
  const results = comparison.scenarios.flatMap(({ rounds }) => rounds.flatMap(({ a, b }) => [a, b]))
  return !interrupt.signal.aborted && results.every(isGood) ? 0 : EXIT_FAILED
}

async function act(raw: Record<string, unknown>): Promise<void> {
  try {
    const options = parseOptions(raw)
    process.exitCode = await (options.compare ? runComparison(options.compare, options) : run(options))
  } catch (error) {
    const isUsage = error instanceof OptionsError
    process.stderr.write(`${(error as Error).message}\n${isUsage ? 'See --help.\n' : ''}`)
    process.exitCode = isUsage ? EXIT_USAGE : EXIT_FAILED
  }
}

const program = sade('bench', true)
  .describe([
    'Measure an ACME server: throughput, latency per step, CPU per operation.',
    'Ends with 1 when an answer was wrong or nothing succeeded, and with 2 when an option is wrong.',
  ])
  .example('signer --help')
  .example('profile --help')
  .example('load --help')
  .example('--directory https://localhost:14000/dir --insecure --clients 4')
  .example('--scenario directory,nonce,new-order --clients 64 --processes 2 --json results.json')
  .example('--compare main --clients 64 --workers 3 --server-cpus 0-2')
for (const [name, sentence, fallback] of FLAGS) program.option(`--${name}`, sentence, fallback)

const signerProgram = sade('bench-signer', true).describe([
  'Measure the signer alone: signatures per second with keys in files and in SoftHSM tokens, and what limits them.',
  'Starts a signer of its own with throw-away keys and stops it; needs SoftHSM (Debian: softhsm2) for the tokens.',
])
for (const [name, sentence, fallback] of SIGNER_FLAGS) signerProgram.option(`--${name}`, sentence, fallback)

async function actOnSigner(raw: Record<string, unknown>): Promise<void> {
  try {
    await benchSigner(raw, (line) => process.stdout.write(`${line}\n`))
  } catch (error) {
    const isUsage = error instanceof SignerBenchUsage
    process.stderr.write(`${(error as Error).message}\n${isUsage ? 'See --help.\n' : ''}`)
    process.exitCode = isUsage ? EXIT_USAGE : EXIT_FAILED
  }
}

const profileProgram = sade('bench-profile', true).describe([
  'Where the CPU of one operation goes: profiles of all threads, statements of PostgreSQL, event loops, allocations.',
  'Starts a service of its own in development mode, loads it three times, and takes it down.',
])
for (const [name, sentence, fallback] of PROFILE_FLAGS) profileProgram.option(`--${name}`, sentence, fallback)

async function actOnProfile(raw: Record<string, unknown>): Promise<void> {
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupt.abort())
  try {
    const { settings, options } = parseProfileOptions(raw)
    const profiles = await profileServer(settings, options, progressLine(process.stderr), interrupt.signal)
    process.stdout.write(profiles.map(renderProfile).join('\n'))
    if (options.jsonFile !== undefined) writeFileSync(options.jsonFile, `${JSON.stringify({ profiles }, null, 2)}\n`)
    process.exitCode = profiles.every(({ result }) => isGood(result)) ? 0 : EXIT_FAILED
  } catch (error) {
    const isUsage = error instanceof OptionsError
    process.stderr.write(`${(error as Error).message}\n${isUsage ? 'See --help.\n' : ''}`)
    process.exitCode = isUsage ? EXIT_USAGE : EXIT_FAILED
  }
}

const loadProgram = sade('bench-load', true)
  .describe([
    'Fill a database with accounts, orders, authorizations and certificates, to measure with.',
    'Called again with the same figures it goes on where it stopped. Nothing is deleted.',
  ])
  .example('--data-dir /var/tmp/chancery-loaded')
  .example('--database postgres://chancery@db.example/chancery --certificates 1000000 --accounts 100000')
for (const [name, sentence, fallback] of LOAD_FLAGS) loadProgram.option(`--${name}`, sentence, fallback)

async function actOnLoad(raw: Record<string, unknown>): Promise<void> {
  const line = progressLine(process.stderr)
  try {
    await load(
      raw,
      (text) => process.stdout.write(`${text}\n`),
      (text) => (text === '' ? line.end() : line.begin(text)),
    )
  } catch (error) {
    const isUsage = error instanceof LoadUsage
    process.stderr.write(`${(error as Error).message}\n${isUsage ? 'See --help.\n' : ''}`)
    process.exitCode = isUsage ? EXIT_USAGE : EXIT_FAILED
  }
}

function unknown(flag: string): void {
  process.stderr.write(`unknown option ${flag}\nSee --help.\n`)
  process.exit(EXIT_USAGE)
}

const withoutCommand = [...process.argv.slice(0, 2), ...process.argv.slice(3)]
if (process.argv[2] === 'signer') {
  signerProgram.action(actOnSigner).parse(withoutCommand, { unknown })
} else if (process.argv[2] === 'profile') {
  profileProgram.action(actOnProfile).parse(withoutCommand, { unknown })
} else if (process.argv[2] === 'load') {
  loadProgram.action(actOnLoad).parse(withoutCommand, { boolean: ['force'], string: ['database'], unknown })
} else {
  // The parser would take an abbreviated hash such as 12e4567 for a number.
  program.action(act).parse(process.argv, { boolean: ['insecure', 'obey-retry-after'], string: ['compare'], unknown })
}
