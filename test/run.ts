/**
 * Runs the tests: `npm test`, or `npm test -- word …` for the files whose path contains one of the words.
 *
 * The rings (see `support/chosen-files.ts`) begin one after the other, and a failure in one ends the run. PostgreSQL and the CA
 * of the run start before the first ring with a file that uses them, and missing programs are installed if that is allowed.
 * The last line is `N passed, N failed` (`, N skipped` when there are any); the exit code is 0 only when something ran and
 * nothing failed. In a run of all tests a few failed files of a ring get a second run by themselves: what passes then is named
 * at the end, because a test that fails beside others has a fault.
 *
 * Environment: see `USAGE`, `support/postgres.ts` and `support/requirements.ts`.
 */

import { rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { concernedSince, withinTime } from './support/changed-files.ts'
import {
  chooseFiles,
  commandsNeededBy,
  importsSupport,
  isUnit,
  RELEASE_RING,
  type Ring,
  ringsOf,
} from './support/chosen-files.ts'
import { type Ledger, ledgerOf, ledgerReport, ledgerText, readLedger } from './support/ledger.ts'
import { measuredPatience } from './support/measured-patience.ts'
import { OTHER_TIME_ZONE } from './support/other-world.ts'
import { installMissing } from './support/requirements.ts'
import { type Run, runRings, secondsBefore } from './support/rings-run.ts'
import { isNamed, type RunOptions, readOptions } from './support/run-options.ts'
import { endTestProcesses, type Failure } from './support/test-process.ts'
import { cpuOf } from './support/used-parts.ts'

const KEPT_LEDGER = path.resolve(import.meta.dirname, '../../test/times.tsv')
/** Of the limit of one wait: a process that hangs fails after this time, rather than the whole run never ending. */
const WAITS_OF_A_PROCESS = 20
const SLOWEST = 5

const USAGE = `Usage: npm test -- [word …] [--all | --release] [--changed [COMMIT] [--far]] [--times] [--keep]
Runs the test files whose path contains one of the words, or all of them. The path is as in the sources: test/unit/shared/pki/….
--release   only the ring release: packages, image, Compose, Kubernetes, another Node.js, upgrade, comparison of builds
--all       all rings; without it a file of the ring release runs only where a word has its name
--changed   what imports the files that are in no commit, or that changed since COMMIT, within a minute; --far: all of that
--times     prints the ledger: processor time and seconds by file, ring and part, and what changed against test/times.tsv
--keep      writes test/times.tsv (with --all)
Environment: CHANCERY_TEST_CONCURRENCY (files at once), CHANCERY_TEST_POSTGRES (JSON: a server to use instead of an own
one), CHANCERY_ALL_RINGS=1 (a failure does not end the run), CHANCERY_NO_INSTALL=1 (install no packages),
CHANCERY_REQUIRE_ALL=1 (a missing program fails rather than skips), CHANCERY_TEST_PATIENCE (factor of the limit of each
wait, instead of a measured one).`

function stopWith(message: string): never {
  console.error(message)
  process.exit(1)
}

/** Files at once. Five overlap each other’s waiting: with four, two processors were idle for a sixth of the time. */
function concurrency(): number {
  return Number(process.env['CHANCERY_TEST_CONCURRENCY']) || Math.max(5, availableParallelism())
}

/** What files share in a run. Each part starts when a ring first needs it; `stop` ends what has started. */
function sharedParts() {
  const environment: NodeJS.ProcessEnv = { ...process.env, ...OTHER_TIME_ZONE }
  const stops: (() => Promise<void> | void)[] = []

  // Loading these modules takes longer than a unit test.
  const parts: Record<string, () => Promise<void>> = {
    async postgres() {
      const { givenPostgres, POSTGRES_VARIABLE, startTestPostgres } = await import('./support/postgres.ts')
      if (givenPostgres()) return
      const own = await startTestPostgres().catch((error: Error) =>
        stopWith(`the PostgreSQL for the tests did not start: ${error.message}`),
      )
      stops.push(() => own.stop())
      environment[POSTGRES_VARIABLE] = JSON.stringify(own.connection)
    },
    async ca() {
      const { CA_VARIABLE, makeRunCa } = await import('./support/ca.ts')
      const folder = await makeRunCa()
      stops.push(() => rmSync(folder, { recursive: true, force: true }))
      environment[CA_VARIABLE] = folder
    },
  }

  async function startParts(files: readonly string[]): Promise<void> {
    for (const [module, start] of Object.entries(parts)) {
      if (!importsSupport(files, module)) continue
      delete parts[module]
      await start()
    }
  }
  const ready = new Map<Ring, Promise<void>>()
  let last = Promise.resolve()

  return {
    environment,
    startFor(ring: Ring): Promise<void> {
      const known = ready.get(ring)
      if (known !== undefined) return known
      last = last.then(() => startParts(ring.files))
      ready.set(ring, last)
      return last
    },
    async stop() {
      for (const stop of stops.reverse()) await stop()
    },
  }
}

const ALL_RINGS = process.env['CHANCERY_ALL_RINGS'] === '1'

let interrupted = false
// Test processes are in sessions of their own, which the end of a terminal does not reach.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    interrupted = true
    endTestProcesses()
  })

async function runAll(rings: readonly Ring[], before: Ledger, { words }: RunOptions): Promise<Run> {
  const shared = sharedParts()
  try {
    return await runRings(rings, {
      environment: shared.environment,
      startFor: shared.startFor,
      atOnce: concurrency(),
      mostMs: WAITS_OF_A_PROCESS * WAIT_MS,
      before,
      endsWithFailure: !ALL_RINGS,
      mayRetry: words.length === 0,
      isShown: words.length > 0,
      isInterrupted: () => interrupted,
    })
  } finally {
    await shared.stop()
  }
}

const commandFor = (file: string) => `npm test -- ${file.replace(/^test\/|\.test\.ts$/g, '')}`
const indented = (text: string) => text.replace(/^/gm, '    ')

function printFailures(failures: readonly Failure[]): void {
  for (const file of new Set(failures.map((failure) => failure.file))) {
    console.log(`\nfailed: ${file}    alone: ${commandFor(file)}`)
    for (const { name, error } of failures.filter((failure) => failure.file === file))
      console.log(`  ✖ ${name}\n${indented(error)}`)
  }
  if (failures.length > 0) console.log('')
}

function printEnd({ results, faults, left }: Run, cpu: number, leftOut: number): void {
  const files = results.flatMap((result) => result.files)
  const failures = results.flatMap((result) => result.failures)
  const skipReasons = new Set(results.flatMap((result) => result.skipReasons))
  printFailures(failures)
  for (const reason of skipReasons) console.log(`skipped: ${reason}`)
  if (files.length > 1) {
    const slowest = [...files].sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST)
    console.log(`${files.length} files, ${cpu.toFixed(0)} s of CPU; the slowest took`)
    for (const { file, seconds } of slowest) console.log(`${seconds.toFixed(1).padStart(7)} s  ${file}`)
  }
  if (left.length > 0 && interrupted) console.log(`interrupted before all had run: ${left.join(', ')}`)
  else if (left.length > 0)
    console.log(`not run after this failure: ${left.join(', ')}; CHANCERY_ALL_RINGS=1 runs them all`)
  if (leftOut > 0) console.log(`left out: the ${leftOut} files of the ring release, which npm test -- --release runs`)
  for (const { file, name, error } of faults)
    console.log(`fault: ${file} failed beside others and passed alone; mend it\n  ✖ ${name}\n${indented(error)}`)
  const sum = (key: 'passed' | 'failed' | 'skipped') => files.reduce((total, file) => total + file[key], 0)
  const skipped = sum('skipped')
  console.log(`${sum('passed')} passed, ${sum('failed')} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = !interrupted && failures.length === 0 && sum('failed') === 0 && sum('passed') > 0 ? 0 : 1
}

/** By the ledger; most machines need less than a minute for it, with PostgreSQL. */
const MOST_CHANGED_SECONDS = 20
/** For a file that is not in the ledger: units are not, mostly. */
const unknownSeconds = (file: string) => (isUnit(file) ? 0.3 : 5)

function changedFiles({ changedSince = 'HEAD', far }: RunOptions, before: Ledger): string[] {
  const { changed, distances } = concernedSince(changedSince)
  // The files beside the folders and the rules of the house read all sources.
  const readers = [import.meta.dirname, path.join(import.meta.dirname, 'house')]
  const everywhere = chooseFiles([]).filter((file) => readers.includes(path.dirname(file)))
  const all = new Map([...everywhere.map((file) => [file, 1] as const), ...distances])
  const candidates = [...all].map(([file, distance]) => ({
    file,
    distance,
    isUnit: isUnit(file),
    seconds: (secondsBefore(before, file) ?? unknownSeconds(file)) / concurrency(),
  }))
  const files = withinTime(candidates, far ? Number.POSITIVE_INFINITY : MOST_CHANGED_SECONDS)
  console.log(`changed: ${changed.length} files; ${distances.size} test files import one of them, or are one`)
  const more = all.size - files.length
  const since = changedSince === 'HEAD' ? '' : ` ${changedSince}`
  if (more > 0)
    console.log(`left out: ${more} of them that take longer, which npm test -- --changed${since} --far runs`)
  return files
}

/** The chosen rings, and how many files of the ring release are not among them. */
function chosenRings(options: RunOptions, before: Ledger): { rings: Ring[]; leftOut: number } {
  const { words, release } = options
  const all = ringsOf(options.changedSince === undefined ? chooseFiles(words) : changedFiles(options, before))
  const ofRelease = all.find(({ name }) => name === RELEASE_RING)?.files ?? []
  const rings = all.flatMap((ring) => {
    if (ring.name !== RELEASE_RING) return release === 'alone' ? [] : [ring]
    const files = release === 'named' ? ring.files.filter((file) => isNamed(file, words)) : ring.files
    return files.length > 0 ? [{ ...ring, files }] : []
  })
  const chosen = rings.find(({ name }) => name === RELEASE_RING)?.files.length ?? 0
  return { rings, leftOut: ofRelease.length - chosen }
}

function optionsFrom(args: readonly string[]): RunOptions {
  try {
    return readOptions(args)
  } catch (error) {
    return stopWith((error as Error).message)
  }
}

const args = process.argv.slice(2)
if (args.some((word) => word === '-h' || word === '--help')) {
  console.log(USAGE)
  process.exit()
}
const options = optionsFrom(args)
const before = readLedger(KEPT_LEDGER)
const { rings, leftOut } = chosenRings(options, before)
if (rings.length === 0) stopWith(`no test file matches ${options.words.join(' ') || '*.test.js'}`)

/** Set before a module reads it. */
process.env['CHANCERY_TEST_PATIENCE'] ||= String(measuredPatience())
const { WAIT_MS } = await import('./support/patience.ts')
console.log(
  `a test waits ${Math.round(WAIT_MS / 1000)} s at most for a condition (CHANCERY_TEST_PATIENCE=${process.env['CHANCERY_TEST_PATIENCE']})`,
)
installMissing(commandsNeededBy(rings.flatMap(({ files }) => files)), console.log)

const run = await runAll(rings, before, options)
const cpu = cpuOf()
const ledger = ledgerOf(run.results, { cpu, seconds: process.uptime() })
if (options.times) for (const line of ledgerReport(ledger, before)) console.log(line)
if (options.keep) writeFileSync(KEPT_LEDGER, ledgerText(ledger))
printEnd(run, cpu, leftOut)
