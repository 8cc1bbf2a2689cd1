#!/usr/bin/env node
/** `npm run bench`: drives ACME servers through scenarios and reports what they did and what that cost. */

import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import sade from 'sade'
import type { AbuseResult } from './abuse/result.ts'
import { runAbuse } from './abuse/run.ts'
import { renderAbuse } from './abuse/text.ts'
import { contest, withServers } from './contest.ts'
import { type Interrupt, Interrupted, interruptBySignals, interruptedBy, unlessInterrupted } from './interrupt.ts'
import { LOAD_FLAGS, LoadUsage, load } from './load/command.ts'
import { benchMicro, MICRO_FLAGS, MICRO_GROUPS } from './micro/command.ts'
import { ABUSE_FLAGS, parseAbuseOptions } from './options/abuse.ts'
import { FLAGS, type Options, parseOptions } from './options/options.ts'
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
import { isGood } from './report/result.ts'
import { isBroken } from './report/summary.ts'
import { renderText } from './report/text.ts'
import { runScale } from './scale/run.ts'
import { renderScale } from './scale/text.ts'
import type { Contestant } from './servers/contestant.ts'
import { benchSigner, SIGNER_FLAGS, SignerBenchUsage } from './signer/command.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

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

/** @returns whether everything of our own servers went well. */
async function loadServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const options = parseOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const isAlone = contestants.length === 1
    let printed = 0
    const measurements = await contest(contestants, options, progress, interrupt, (result) => {
      if (isAlone) process.stdout.write(`${printed++ > 0 ? '\n' : ''}${renderText(result)}`)
    })
    const servers = contestants.map(({ subject }) => subject)
    if (!isAlone || options.servers.repeat > 1)
      process.stdout.write(`${printed > 0 ? '\n' : ''}${renderSummary(servers, measurements)}`)
    writeReports(options, document(servers, { measurements }))
    return measurements.every(
      ({ rounds }) =>
        rounds.length === options.servers.repeat &&
        rounds.every((turns) =>
          turns.every((turn, index) => !servers[index]?.isOurs || (!isBroken(turn) && isGood(turn))),
        ),
    )
  })
}

async function overloadServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, overload } = parseOverloadOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const results: OverloadResult[] = []
    for (const scenario of options.scenarios) {
      for (const contestant of contestants) {
        if (interrupt.aborted) break
        const result = await othersMayBreak(
          contestant,
          runOverload(contestant, scenario, overload, progress, interrupt),
        )
        if (!result) continue
        process.stdout.write(renderOverload(result))
        results.push(result)
      }
    }
    writeReports(options, document(subjectsOf(contestants), { overload: results }))
    return results.every(({ maximum, run }) => isGood(maximum) && isGood(run))
  })
}

async function abuseServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, abuse } = parseAbuseOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const results: AbuseResult[] = []
    for (const contestant of contestants) {
      for (const scenario of options.scenarios) {
        for (const kind of abuse.kinds) {
          if (interrupt.aborted) break
          const result = await othersMayBreak(
            contestant,
            runAbuse(contestant, scenario, kind, abuse, progress, interrupt),
          )
          if (!result) continue
          process.stdout.write(`${results.length > 0 ? '\n' : ''}${renderAbuse(result)}`)
          results.push(result)
        }
      }
    }
    writeReports(options, document(subjectsOf(contestants), { abuse: results }))
    const turns = results.flatMap(({ others }) => others.rounds.flat())
    return turns.every((turn) => !isBroken(turn) && isGood(turn))
  })
}

async function scaleServers(raw: Raw, { progress, interrupt, document }: Session): Promise<boolean> {
  const { options, scale } = parseScaleOptions(raw)
  return await withServers(options, progress, interrupt, async (contestants) => {
    const [host] = contestants
    if (!host?.server) throw new Error('the service that brings PostgreSQL did not start')
    const rows = await runScale(host.server, options, scale, progress, interrupt)
    process.stdout.write(renderScale(rows, availableParallelism()))
    writeReports(options, document(subjectsOf(contestants), { scale: rows }))
    return rows.flatMap(({ rounds }) => rounds.flat()).every(isGood)
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

async function profile(raw: Raw, { progress, interrupt }: Session): Promise<boolean> {
  const { settings, options } = parseProfileOptions(raw)
  const profiles = await profileServer(settings, options, progress, interrupt)
  process.stdout.write(profiles.map(renderProfile).join('\n'))
  if (options.jsonFile !== undefined)
    writeFileSync(
      options.jsonFile,
      `${JSON.stringify({ interruptedBy: interruptedBy(interrupt), profiles }, null, 2)}\n`,
    )
  return profiles.every(({ result }) => isGood(result))
}

async function fill(raw: Raw, { progress, interrupt }: Session): Promise<boolean> {
  // A statement under way may take minutes. What it leaves is undone, and the embedded database ends with this process.
  interrupt.again.addEventListener('abort', () => process.exit(interrupt.reason.exitCode))
  await load(raw, writeLine, (text) => (text === '' ? progress.end() : progress.begin(text)), interrupt)
  return true
}

async function micro(raw: Raw, { interrupt }: Session): Promise<boolean> {
  await benchMicro(raw, writeLine, interrupt)
  return true
}

async function signer(raw: Raw, { interrupt }: Session): Promise<boolean> {
  await benchSigner(raw, writeLine, interrupt)
  return true
}

function writeLine(line: string): void {
  process.stdout.write(`${line}\n`)
}

function subjectsOf(contestants: readonly Contestant[]) {
  return contestants.map(({ subject }) => subject)
}

function writeReports({ jsonFile, htmlFile }: Options, document: BenchDocument): void {
  if (htmlFile !== undefined) writeFileSync(htmlFile, renderHtml(document))
  if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify(document, null, 2)}\n`)
}

/** Runs a command and tells its end by the exit code. */
function acting(run: (raw: Raw, session: Session) => Promise<boolean>) {
  return async (raw: Raw): Promise<void> => {
    const session = beginSession()
    try {
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
      'Ends with 1 when an answer was wrong or nothing succeeded, with 2 when an option is wrong, and after Ctrl-C with 130.',
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
    ],
    ['--start --clients 64 --workers 3 --server-cpus 0-2 --html overload.html'],
  ).action(acting(overloadServers)),
  abuse: commandNamed(
    'bench-abuse',
    ABUSE_FLAGS,
    [
      'What one abusive client costs the others: a closed loop with and without it, in turn.',
      'The abuser holds connections, forges signatures, sends huge bodies, or dribbles bytes.',
    ],
    ['--start --clients 32 --workers 3 --server-cpus 0-2 --abuse slowloris,bad-signatures'],
  ).action(acting(abuseServers)),
  scale: commandNamed(
    'bench-scale',
    SCALE_FLAGS,
    [
      'Certificates a second, and for each core used, with 1, 2, 3 front threads and with several instances on one database.',
      'Starts all of them, loads them in turn (A B C D, A B C D), and takes them down.',
    ],
    ['--clients 64 --server-cpus 0-2 --challenge accept-all-01 --duration 10 --warmup 10'],
  ).action(acting(scaleServers)),
  profile: commandNamed('bench-profile', PROFILE_FLAGS, [
    'Where the CPU of one operation goes: profiles of all threads, statements of PostgreSQL, event loops, allocations.',
    'Starts a service of its own in development mode, loads it three times, and takes it down.',
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
  ).action(acting(micro)),
  signer: commandNamed('bench-signer', SIGNER_FLAGS, [
    'Measure the signer alone: signatures per second with keys in files and in SoftHSM tokens, and what limits them.',
    'Starts a signer of its own with throw-away keys and stops it; needs SoftHSM (Debian: softhsm2) for the tokens.',
  ]).action(acting(signer)),
}

function unknown(flag: string): void {
  process.stderr.write(`unknown option ${flag}\nSee --help.\n`)
  process.exit(EXIT_USAGE)
}

const FLAGS_OF = {
  ...{ bench: FLAGS, overload: OVERLOAD_FLAGS, abuse: ABUSE_FLAGS, scale: SCALE_FLAGS, profile: PROFILE_FLAGS },
  ...{ load: LOAD_FLAGS, micro: MICRO_FLAGS, signer: SIGNER_FLAGS },
} satisfies Record<keyof typeof COMMANDS, readonly Flag[]>

const [node = '', script = '', word = '', ...others] = process.argv
const name = (Object.keys(COMMANDS) as (keyof typeof COMMANDS)[]).find((known) => known === word) ?? 'bench'
const ofCommand = (flags: readonly string[]) => flags.filter((flag) => FLAGS_OF[name].some(([known]) => known === flag))
COMMANDS[name].parse([node, script, ...(name === word ? others : process.argv.slice(2))], {
  boolean: ofCommand(['insecure', 'obey-retry-after', 'start', 'force']),
  // The parser would take an abbreviated hash such as 12e4567 for a number.
  string: ofCommand(['compare', 'database']),
  unknown,
})
