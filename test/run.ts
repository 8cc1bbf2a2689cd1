/**
 * Runs the tests: `npm test`, or `npm test -- pattern …` for the files whose path contains one of the patterns.
 *
 * The rings (see `support/chosen-files.ts`) run one after the other, and a failure in one ends the run. PostgreSQL and the CA
 * of the run start before the first ring with a file that uses them, and missing programs are installed if that is allowed.
 * The last line is `N passed, N failed` (`, N skipped` when there are any); the exit code is 0 only when something ran and
 * nothing failed. In a run of all tests a few failed files of a ring get a second run by themselves: what passes then is named
 * in the output, because a test that fails beside others has a race that wants mending.
 *
 * Environment: see `USAGE`, `support/postgres.ts` and `support/requirements.ts`.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  chooseFiles,
  commandsNeededBy,
  importsSupport,
  processesOf,
  type Ring,
  ringsOf,
} from './support/chosen-files.ts'
import { sourceName, type TestCounts } from './support/counts-reporter.ts'
import { measuredPatience } from './support/measured-patience.ts'
import { installMissing } from './support/requirements.ts'

const TESTS = import.meta.dirname

/** Set before a module reads it. */
process.env['CHANCERY_TEST_PATIENCE'] ||= String(measuredPatience())
const { WAIT_MS } = await import('./support/patience.ts')
/** A file that hangs fails after this time, rather than the whole run never ending. */
const TEST_TIMEOUT_MS = 20 * WAIT_MS

/** Files at once. Four overlap each other's waiting, and keep two processors busy. */
function concurrency(): number {
  return Number(process.env['CHANCERY_TEST_CONCURRENCY']) || Math.max(4, availableParallelism())
}

function startRunner(files: readonly string[], countsFile: string, environment: NodeJS.ProcessEnv): ChildProcess {
  const options = [
    '--test',
    '--enable-source-maps',
    `--import=${pathToFileURL(path.join(TESTS, 'support/file-end.js'))}`,
    `--test-concurrency=${concurrency()}`,
    `--test-timeout=${TEST_TIMEOUT_MS}`,
  ]
  const reporters = [
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    `--test-reporter=${path.join(TESTS, 'support/counts-reporter.js')}`,
    `--test-reporter-destination=${countsFile}`,
  ]
  return spawn(process.execPath, [...options, ...reporters, ...files], { stdio: 'inherit', env: environment })
}

/** The exit code of the runner, or 1 when it was ended by a signal. Our own signals are passed on to it first. */
function finish(runner: ChildProcess): Promise<number> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal))
  return new Promise((resolve, reject) => {
    runner.on('error', reject)
    runner.on('close', (code) => resolve(code ?? 1))
  })
}

interface Outcome {
  exitCode: number
  counts: TestCounts
}

async function runFiles(files: readonly string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-counts-'))
  try {
    const processes = processesOf(files, folder)
    for (const { entry, files } of processes)
      if (entry !== files[0]) writeFileSync(entry, files.map((file) => `import '${pathToFileURL(file)}'\n`).join(''))
    const countsFile = path.join(folder, 'counts.json')
    const entries = processes.map(({ entry }) => entry)
    const exitCode = await finish(startRunner(entries, countsFile, environment))
    const written = existsSync(countsFile) ? readFileSync(countsFile, 'utf8') : ''
    // A runner that was ended by a signal writes none.
    const counts = written === '' ? sum([]) : (JSON.parse(written) as TestCounts)
    // A process that ends early fails as its entry.
    const failedFiles = counts.failedFiles.flatMap((name) => {
      const files = processes.find(({ entry }) => entry === name)?.files
      return files?.map(sourceName) ?? name
    })
    return { exitCode, counts: { ...counts, failedFiles } }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** More than this is no race. */
const MOST_RETRIED_FILES = 3

/** What fails beside the others runs once more by itself. */
async function runWithRetry(files: readonly string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  const first = await runFiles(files, environment)
  const { failedFiles } = first.counts
  if (first.exitCode === 0 || failedFiles.length === 0 || failedFiles.length > MOST_RETRIED_FILES) return first
  const names = failedFiles.join(', ')
  console.log(`failed beside the others, so run once more alone: ${names}`)
  const second = await runFiles(
    failedFiles.flatMap((name) => chooseFiles([name])),
    environment,
  )
  if (second.exitCode !== 0) return first
  console.log(`passed only when run alone, which is a race to be mended: ${names}`)
  const { passed, failed } = first.counts
  return { exitCode: 0, counts: { ...first.counts, passed: passed + failed, failed: 0, failedFiles: [] } }
}

/** What files share in a run. Each part starts when a ring first needs it; `stop` ends what has started. */
function sharedParts() {
  const environment: NodeJS.ProcessEnv = { ...process.env }
  const stops: (() => Promise<void> | void)[] = []

  // Loading these modules takes longer than a unit test.
  const parts: Record<string, () => Promise<void>> = {
    async postgres() {
      const { givenPostgres, POSTGRES_VARIABLE, startTestPostgres } = await import('./support/postgres.ts')
      if (givenPostgres()) return
      const own = await startTestPostgres().catch((error: Error) => {
        console.error(`the PostgreSQL for the tests did not start: ${error.message}`)
        process.exit(1)
      })
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

  return {
    environment,
    async startFor(files: readonly string[]) {
      for (const [module, start] of Object.entries(parts)) {
        if (!importsSupport(files, module)) continue
        delete parts[module]
        await start()
      }
    },
    async stop() {
      for (const stop of stops.reverse()) await stop()
    },
  }
}

function sum(all: readonly TestCounts[]): TestCounts {
  const total = (of: (counts: TestCounts) => number) => all.reduce((number, counts) => number + of(counts), 0)
  return {
    passed: total(({ passed }) => passed),
    failed: total(({ failed }) => failed),
    skipped: total(({ skipped }) => skipped),
    skipReasons: [...new Set(all.flatMap(({ skipReasons }) => skipReasons))],
    failedFiles: all.flatMap(({ failedFiles }) => failedFiles),
    seconds: Object.assign({}, ...all.map(({ seconds }) => seconds)),
  }
}

const ALL_RINGS = process.env['CHANCERY_ALL_RINGS'] === '1'

async function runRings(rings: readonly Ring[], isWholeRun: boolean): Promise<Outcome> {
  const shared = sharedParts()
  const outcomes: Outcome[] = []
  try {
    for (const { name, files } of rings) {
      if (rings.length > 1) console.log(`ring: ${name}, ${files.length} files`)
      await shared.startFor(files)
      const run = isWholeRun ? runWithRetry : runFiles
      outcomes.push(await run(files, shared.environment))
      if (outcomes.at(-1)?.exitCode !== 0 && !ALL_RINGS) break
    }
  } finally {
    await shared.stop()
  }
  const left = rings.slice(outcomes.length).map(({ name }) => name)
  if (left.length > 0) console.log(`not run after this failure: ${left.join(', ')}; CHANCERY_ALL_RINGS=1 runs them all`)
  return {
    exitCode: Math.max(...outcomes.map(({ exitCode }) => exitCode)),
    counts: sum(outcomes.map(({ counts }) => counts)),
  }
}

const SLOWEST = 40

function printSlowest(seconds: TestCounts['seconds']): void {
  const slowest = Object.entries(seconds).sort(([, a], [, b]) => b - a)
  const sum = slowest.reduce((total, [, one]) => total + one, 0)
  console.log(`the tests of ${slowest.length} files took ${sum.toFixed(0)} s, of which`)
  for (const [name, one] of slowest.slice(0, SLOWEST)) console.log(`${one.toFixed(1).padStart(7)} s  ${name}`)
}

function printCounts({ passed, failed, skipped, skipReasons, failedFiles, seconds }: TestCounts): void {
  if (Object.keys(seconds).length > 1) printSlowest(seconds)
  for (const reason of skipReasons) console.log(`skipped: ${reason}`)
  for (const file of failedFiles) console.log(`failed: ${file}`)
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
}

const USAGE = `Usage: npm test -- [word …]
Runs the test files whose path contains one of the words, or all of them. The path is as in the sources: test/unit/shared/pki/….
Environment: CHANCERY_TEST_CONCURRENCY (files at once), CHANCERY_TEST_POSTGRES (JSON: a server to use instead of an own
one), CHANCERY_ALL_RINGS=1 (a failure does not end the run), CHANCERY_NO_INSTALL=1 (install no packages),
CHANCERY_REQUIRE_ALL=1 (a missing program fails rather than skips), CHANCERY_TEST_PATIENCE (factor of the limit of each
wait, instead of a measured one).`

const patterns = process.argv.slice(2)
if (patterns.some((word) => word === '-h' || word === '--help')) {
  console.log(USAGE)
  process.exit()
}
const files = chooseFiles(patterns)
if (files.length === 0) {
  console.error(`no test file matches ${patterns.join(' ') || '*.test.js'}`)
  process.exit(1)
}
console.log(
  `a test waits ${WAIT_MS / 1000} s at most for a condition: this machine's factor is ${process.env['CHANCERY_TEST_PATIENCE']}`,
)
installMissing(commandsNeededBy(files), console.log)
const { exitCode, counts } = await runRings(ringsOf(files), patterns.length === 0)
printCounts(counts)
process.exitCode = exitCode === 0 && counts.failed === 0 && counts.passed > 0 ? 0 : 1
