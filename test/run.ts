/**
 * Runs the tests: `npm test`, or `npm test -- pattern …` for the files whose path contains one of the patterns.
 *
 * Starts one PostgreSQL for the whole run, installs the programs that the chosen tests need if it may, runs the compiled
 * files with Node's own runner, and ends with a line `N passed, N failed` (`, N skipped` when there are any). Exit code 0
 * only when something ran and nothing failed. In a run of all tests a few failed files get a second run by themselves: what
 * passes then is named in the output, because a test that fails beside others has a race that wants mending.
 *
 * Environment: CHANCERY_TEST_CONCURRENCY (files at once), CHANCERY_TEST_POSTGRES (another server, see `support/postgres.ts`),
 * CHANCERY_NO_INSTALL=1, CHANCERY_REQUIRE_ALL=1 (see `support/requirements.ts`).
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { CA_VARIABLE, makeRunCa } from './support/ca.ts'
import type { TestCounts } from './support/counts-reporter.ts'
import { givenPostgres, POSTGRES_VARIABLE, startTestPostgres } from './support/postgres.ts'
import { DEBIAN_PACKAGES, installMissing, type RequiredCommand } from './support/requirements.ts'

const TESTS = import.meta.dirname

/** A file that hangs fails after this time, rather than the whole run never ending. On a machine that is busy some take minutes. */
const TEST_TIMEOUT_MS = 20 * 60_000

function chooseFiles(patterns: readonly string[]): string[] {
  const names = readdirSync(TESTS, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.test.js'))
  // Patterns are typed with the source's ending, taken from an editor or from a failure's stack.
  const wanted = patterns.map((pattern) => pattern.replace(/\.ts$/, '.js'))
  const matches = (name: string) => wanted.length === 0 || wanted.some((pattern) => `test/${name}`.includes(pattern))
  return names
    .filter(matches)
    .sort()
    .map((name) => path.join(TESTS, name))
}

/** The programs that these files ask for, read from their text so that a unit test never waits for certbot's installation. */
function commandsNeededBy(files: readonly string[]): RequiredCommand[] {
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n')
  const commands = Object.keys(DEBIAN_PACKAGES) as RequiredCommand[]
  return commands.filter((command) => text.includes(`requireCommand('${command}')`))
}

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

async function runTests(files: readonly string[], postgres: string): Promise<{ exitCode: number; counts: TestCounts }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-counts-'))
  const ca = await makeRunCa()
  try {
    const countsFile = path.join(folder, 'counts.json')
    const environment = { ...process.env, [POSTGRES_VARIABLE]: postgres, [CA_VARIABLE]: ca }
    const exitCode = await finish(startRunner(files, countsFile, environment))
    return { exitCode, counts: JSON.parse(readFileSync(countsFile, 'utf8')) as TestCounts }
  } finally {
    for (const made of [folder, ca]) rmSync(made, { recursive: true, force: true })
  }
}

/** More than this is no race. */
const MOST_RETRIED_FILES = 3

/** All tests; what fails beside the others runs once more by itself. */
async function runAllTests(
  files: readonly string[],
  postgres: string,
): Promise<{ exitCode: number; counts: TestCounts }> {
  const first = await runTests(files, postgres)
  const { failedFiles } = first.counts
  if (first.exitCode === 0 || failedFiles.length === 0 || failedFiles.length > MOST_RETRIED_FILES) return first
  const names = failedFiles.join(', ')
  console.log(`failed beside the others, so run once more alone: ${names}`)
  const second = await runTests(
    failedFiles.flatMap((name) => chooseFiles([name])),
    postgres,
  )
  if (second.exitCode !== 0) return first
  console.log(`passed only when run alone, which is a race to be mended: ${names}`)
  const { passed, failed } = first.counts
  return { exitCode: 0, counts: { ...first.counts, passed: passed + failed, failed: 0 } }
}

const SLOWEST = 40

function printSlowest(seconds: TestCounts['seconds']): void {
  const slowest = Object.entries(seconds).sort(([, a], [, b]) => b - a)
  const sum = slowest.reduce((total, [, one]) => total + one, 0)
  console.log(`the tests of ${slowest.length} files took ${sum.toFixed(0)} s, of which`)
  for (const [name, one] of slowest.slice(0, SLOWEST)) console.log(`${one.toFixed(1).padStart(7)} s  ${name}`)
}

function printCounts({ passed, failed, skipped, skipReasons, seconds }: TestCounts): void {
  if (passed + failed > SLOWEST) printSlowest(seconds)
  for (const reason of skipReasons) console.log(`skipped: ${reason}`)
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
}

if (process.argv.slice(2).some((word) => word === '-h' || word === '--help')) {
  console.log(`Usage: npm test -- [word …]
Runs the test files whose path contains one of the words, or all of them. The path is as in the sources: test/unit/shared/pki/….
Environment: CHANCERY_TEST_CONCURRENCY (files at once), CHANCERY_TEST_POSTGRES (JSON: a server to use instead of an own
one), CHANCERY_NO_INSTALL=1 (install no packages), CHANCERY_REQUIRE_ALL=1 (a missing program fails rather than skips).`)
  process.exit()
}
const patterns = process.argv.slice(2)
const files = chooseFiles(patterns)
if (files.length === 0) {
  console.error(`no test file matches ${patterns.join(' ') || '*.test.js'}`)
  process.exit(1)
}
installMissing(commandsNeededBy(files), console.log)
const given = givenPostgres()
const own = given ? undefined : await startTestPostgres().catch((error: Error) => error.message)
if (typeof own === 'string') {
  console.error(`the PostgreSQL for the tests did not start: ${own}`)
  process.exit(1)
}
try {
  const run = patterns.length === 0 ? runAllTests : runTests
  const { exitCode, counts } = await run(files, JSON.stringify(given ?? own?.connection))
  printCounts(counts)
  process.exitCode = exitCode === 0 && counts.failed === 0 && counts.passed > 0 ? 0 : 1
} finally {
  await own?.stop()
}
