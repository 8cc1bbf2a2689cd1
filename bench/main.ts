#!/usr/bin/env node
/** `npm run bench`: drives ACME servers through scenarios and reports what they did and what that cost. */

import { availableParallelism } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import sade from 'sade'
import { nearest } from '../src/config-file/suggest.ts'
import type { AbuseResult } from './abuse/result.ts'
import { runAbuse } from './abuse/run.ts'
import { renderAbuse } from './abuse/text.ts'
import { contest, withServers } from './contest.ts'
import { type Interrupt, Interrupted, interruptBySignals, interruptedBy, unlessInterrupted } from './interrupt.ts'
import { LOAD_FLAGS, LoadUsage, load } from './load/command.ts'
import { benchMicro, MICRO_FLAGS, MICRO_GROUPS } from './micro/command.ts'
import { ABUSE_FLAGS, parseAbuseOptions } from './options/abuse.ts'
import { FLAGS, parseOptions } from './options/options.ts'
import { type OutputFiles, writeOutput } from './options/outputs.ts'
import { OVERLOAD_FLAGS, parseOverloadOptions } from './options/overload.ts'
import { type Flag, OptionsError, type Raw } from './options/reader.ts'
import { parseScaleOptions, SCALE_FLAGS } from './options/scale.ts'
import type { OverloadResult } from './overload/result.ts'
import { runOverload } from './overload/run.ts'
import { renderOverload } from './overload/text.ts'
import { PROFILE_FLAGS, parseProfileOptions } from './profile/command.ts'
import { profileServer } from './profile/profile.ts'
import { renderProfile } from './profile/text.ts'
import { renderSummary } from './report/comparison-text.ts'
import { type BenchDocument, beginDocument } from './report/document.ts'
import { renderHtml } from './report/html/page.ts'
import { type ProgressLine, progressLine } from './report/progress.ts'
import { isGood, type Result } from './report/result.ts'
import { isBroken } from './report/summary.ts'
import { renderText } from './report/text.ts'
import { runScale } from './scale/run.ts'
import { renderScale } from './scale/text.ts'
import { ONLY_BY_NAME } from './scenario/table.ts'
import type { Contestant } from './servers/contestant.ts'
import { benchSigner, SIGNER_FLAGS, SignerBenchUsage } from './signer/command.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2
const EXIT_CODES =
  'Ends with 0 when every operation of every server went well (refusals with 503 and Retry-After, and arrivals that an open loop drops, do not count), with 1 when one failed, nothing succeeded, a server broke or a file could not be written, with 2 before anything starts when an option is wrong, and with 130 after Ctrl-C.'

/** What every command has: a progress line, signals that end it, and a document that begins with it. */
interface Session {
  progress: ProgressLine
  interrupt: Interrupt
  document: ReturnType<typeof beginDocument>
}

function beginSession(): Session {
  const interrupt = interruptBySignals()
  return {
    progress: progressLine(process.stderr),
    interrupt,
    document: beginDocument(process.argv.slice(2), () => interruptedBy(interrupt)),
  }
}

/** @returns whether every operation of every server went well, as do the other commands. */
async function loadServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const options = parseOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const isAlone = contestants.length === 1
    let printed = 0
    const onResult = (result: Result) => {
      if (isAlone) process.stdout.write(`${printed++ > 0 ? '\n' : ''}${renderText(result)}`)
    }
    const leftOut = options.skipsUnsupported ? ONLY_BY_NAME.map((name) => `${name} (only by name)`) : []
    const onLeftOut = (scenario: string, reason: string) => void leftOut.push(`${scenario} (${reason})`)
    const measurements = await contest(contestants, options, progress, interrupt, onResult, onLeftOut)
    const servers = contestants.map(({ subject }) => subject)
    if (!isAlone || options.servers.repeat > 1)
      process.stdout.write(`${printed > 0 ? '\n' : ''}${renderSummary(servers, measurements)}`)
    if (leftOut.length > 0) process.stdout.write(`\nleft out of "all": ${leftOut.join(', ')}\n`)
    const isWritten = writeReports(options, document(servers, { measurements }))
    return (
      isWritten &&
      measurements.every(
        ({ rounds }) =>
          rounds.length === options.servers.repeat &&
          rounds.every((turns) => turns.every((turn) => !isBroken(turn) && isGood(turn))),
      )
    )
  })
}

async function overloadServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, overload } = parseOverloadOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const results: OverloadResult[] = []
    let broken = 0
    for (const scenario of options.scenarios) {
      for (const contestant of contestants) {
        if (interrupt.aborted) break
        const result = await othersMayBreak(
          contestant,
          runOverload(contestant, scenario, overload, progress, interrupt),
        )
        if (!result) {
          broken++
          continue
        }
        process.stdout.write(renderOverload(result))
        results.push(result)
      }
    }
    const isWritten = writeReports(options, document(subjectsOf(contestants), { overload: results }))
    return isWritten && broken === 0 && results.every(({ maximum, run }) => isGood(maximum) && isGood(run))
  })
}

async function abuseServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, abuse } = parseAbuseOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const results: AbuseResult[] = []
    let broken = 0
    for (const contestant of contestants) {
      for (const scenario of options.scenarios) {
        for (const kind of abuse.kinds) {
          if (interrupt.aborted) break
          const result = await othersMayBreak(
            contestant,
            runAbuse(contestant, scenario, kind, abuse, progress, interrupt),
          )
          if (!result) {
            broken++
            continue
          }
          process.stdout.write(`${results.length > 0 ? '\n' : ''}${renderAbuse(result)}`)
          results.push(result)
        }
      }
    }
    const isWritten = writeReports(options, document(subjectsOf(contestants), { abuse: results }))
    const turns = results.flatMap(({ others }) => others.rounds.flat())
    return isWritten && broken === 0 && turns.every((turn) => !isBroken(turn) && isGood(turn))
  })
}

async function scaleServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, scale } = parseScaleOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const [host] = contestants
    if (!host?.server) throw new Error('the service that brings PostgreSQL did not start')
    const rows = await runScale(host.server, options, scale, progress, interrupt)
    process.stdout.write(renderScale(rows, availableParallelism()))
    const isWritten = writeReports(options, document(subjectsOf(contestants), { scale: rows }))
    return isWritten && rows.flatMap(({ rounds }) => rounds.flat()).every(isGood)
  })
}

/** @returns undefined when it was interrupted, or another project's server broke: that is said, and does not end the run. */
async function othersMayBreak<T>({ subject, restart }: Contestant, running: Promise<T>): Promise<T | undefined> {
  try {
    return await unlessInterrupted(running)
  } catch (error) {
    if (subject.isOurs) throw error
    process.stdout.write(`${subject.name} is broken: ${(error as Error).message}\n`)
    // One that cannot be started anew is broken in its next turn, too, and says so there.
    await restart?.().catch(() => undefined)
    return undefined
  }
}

async function profile(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { settings, options } = parseProfileOptions(raw)
  const { build, profiles } = await profileServer(settings, options, progress, interrupt)
  process.stdout.write(profiles.map(renderProfile).join('\n'))
  const subject = { name: build.name, commit: build.commit, note: '', isOurs: true }
  const isWritten = writeReports(options, document([subject], { profiles }))
  return isWritten && profiles.every(({ result }) => isGood(result))
}

async function measureParts(raw: Raw, { interrupt, document }: Session): Promise<boolean> {
  const { micro, files } = await benchMicro(raw, writeLine, interrupt)
  return writeReports(files, document([], { micro }))
}

async function measureSigner(raw: Raw, { interrupt, document }: Session): Promise<boolean> {
  const { rows, files } = await benchSigner(raw, writeLine, interrupt)
  return writeReports(files, document([], { signer: rows }))
}

async function fill(raw: Raw, { progress, interrupt }: Session): Promise<boolean> {
  // A statement under way may take minutes. What it leaves is undone, and the embedded database ends with this process.
  interrupt.again.addEventListener('abort', () => process.exit(interrupt.reason.exitCode))
  await load(raw, writeLine, (text) => (text === '' ? progress.end() : progress.begin(text)), interrupt)
  return true
}

function writeLine(line: string): void {
  process.stdout.write(`${line}\n`)
}

function subjectsOf(contestants: readonly Contestant[]) {
  return contestants.map(({ subject }) => subject)
}

/** @returns whether all that was asked for is written. */
function writeReports({ jsonFile, htmlFile }: OutputFiles, document: BenchDocument): boolean {
  const isPage = writeOutput('html', htmlFile, () => renderHtml(document))
  return writeOutput('json', jsonFile, () => `${JSON.stringify(document, null, 2)}\n`) && isPage
}

/** Runs a command and tells its end by the exit code. @param takesWords Words that belong to no option are for it to judge. */
function acting(run: (raw: Raw, session: Session) => Promise<boolean>, { takesWords = false } = {}) {
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
    writeLine(`interrupted by ${by}: what was measured until then is all there is`)
    process.exitCode = session.interrupt.reason.exitCode
  }
}

/** @returns the exit code. */
function tellFailure(error: Error): number {
  const isUsage = [OptionsError, SignerBenchUsage, LoadUsage].some((kind) => error instanceof kind)
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

function commandNamed(name: string, flags: readonly Flag[], description: string[], examples: string[] = []) {
  const command = sade(name, true).describe(description)
  for (const example of examples) command.example(example)
  for (const [flag, sentence, fallback] of flags) command.option(`--${flag}`, sentence, fallback)
  return command
}

const COMMANDS = {
  bench: commandNamed(
    'bench',
    FLAGS,
    [
      'Measure ACME servers: throughput, latency per step, CPU per operation. Other commands: overload, abuse, scale, profile, micro, load, signer.',
      EXIT_CODES,
    ],
    [
      'overload --help',
      'abuse --help',
      'scale --help',
      'profile --help',
      'micro --help',
      'load --help',
      'signer --help',
      '--directory https://localhost:14000/dir --insecure --clients 4',
      '--scenario directory,nonce,new-order --clients 64 --processes 2 --json results.json',
      '--start --clients 64 --rate 50%',
      '--compare main --clients 64 --workers 3 --server-cpus 0-2',
    ],
  ).action(acting(loadServers)),
  overload: commandNamed(
    'bench-overload',
    OVERLOAD_FLAGS,
    [
      'Offer a server more than it can do: goodput, refusals and their cost, memory, recovery.',
      'A closed loop finds the maximum; then one open loop goes from calm to flood and back without a pause.',
      EXIT_CODES,
    ],
    ['--start --clients 64 --workers 3 --server-cpus 0-2 --html overload.html'],
  ).action(acting(overloadServers)),
  abuse: commandNamed(
    'bench-abuse',
    ABUSE_FLAGS,
    [
      'What one abusive client costs the others: a closed loop with and without it, in turn.',
      'The abuser holds connections, forges signatures, sends huge bodies, or dribbles bytes.',
      EXIT_CODES,
    ],
    ['--start --clients 32 --workers 3 --server-cpus 0-2 --abuse slowloris,bad-signatures'],
  ).action(acting(abuseServers)),
  scale: commandNamed(
    'bench-scale',
    SCALE_FLAGS,
    [
      'Certificates a second, and for each core used, with 1, 2, 3 front threads and with several instances on one database.',
      'Starts all of them, loads them in turn (A B C D, A B C D), and takes them down.',
      EXIT_CODES,
    ],
    ['--clients 64 --server-cpus 0-2 --challenge accept-all-01 --duration 10 --warmup 10'],
  ).action(acting(scaleServers)),
  profile: commandNamed('bench-profile', PROFILE_FLAGS, [
    'Where the CPU of one operation goes: profiles of all threads, statements of PostgreSQL, event loops, allocations.',
    'Starts a service of its own in development mode, loads it three times, and takes it down.',
    EXIT_CODES,
  ]).action(acting(profile)),
  load: commandNamed(
    'bench-load',
    LOAD_FLAGS,
    [
      'Fill a database with accounts, orders, authorizations and certificates, to measure with.',
      'Called again with the same figures it goes on where it stopped. Nothing is deleted.',
    ],
    [
      '--data-dir /var/tmp/chancery-loaded',
      '--database postgres://chancery@db.example/chancery --certificates 1000000 --accounts 100000',
    ],
  ).action(acting(fill)),
  micro: commandNamed(
    'bench-micro',
    MICRO_FLAGS,
    [
      'What the parts of a request cost one by one, in CPU: those named behind the options, or all.',
      ...MICRO_GROUPS.map(({ names, summary }) => `${names.join(', ')}: ${summary}.`),
    ],
    ['jws-verify csr-parse', '--json a.json', '--baseline a.json'],
  ).action(acting(measureParts, { takesWords: true })),
  signer: commandNamed('bench-signer', SIGNER_FLAGS, [
    'Measure the signer alone: signatures per second with keys in files and in SoftHSM tokens, and what limits them.',
    'Starts a signer of its own with throw-away keys and stops it; needs SoftHSM (Debian: softhsm2) for the tokens.',
  ]).action(acting(measureSigner)),
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

const FLAGS_OF = {
  ...{ bench: FLAGS, overload: OVERLOAD_FLAGS, abuse: ABUSE_FLAGS, scale: SCALE_FLAGS, profile: PROFILE_FLAGS },
  ...{ load: LOAD_FLAGS, micro: MICRO_FLAGS, signer: SIGNER_FLAGS },
} satisfies Record<keyof typeof COMMANDS, readonly Flag[]>

const [node = '', script = '', word = '', ...others] = process.argv
const name = (Object.keys(COMMANDS) as (keyof typeof COMMANDS)[]).find((known) => known === word) ?? 'bench'
const ofCommand = (flags: readonly string[]) => flags.filter((flag) => FLAGS_OF[name].some(([known]) => known === flag))
COMMANDS[name].parse([node, script, ...withNegatives(name === word ? others : process.argv.slice(2))], {
  boolean: ofCommand(['insecure', 'obey-retry-after', 'start', 'force']),
  // The parser would take an abbreviated hash such as 12e4567 for a number.
  string: ofCommand(['compare', 'database']),
  unknown,
})
