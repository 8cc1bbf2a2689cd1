/** Runs test files in a process of their own, and tells what became of them. */

import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { TestProcess } from './chosen-files.ts'
import { endChildrenOf } from './descendants.ts'
import { sourceName, type TestEnd } from './outcome-reporter.ts'
import { PARTS_VARIABLE, type UsedPart } from './used-parts.ts'

export interface Failure {
  file: string
  /** Empty where the file failed as a whole. */
  name: string
  error: string
}

export interface FileResult {
  file: string
  passed: number
  failed: number
  skipped: number
  seconds: number
  /** Seconds of the processor, with what the file started. */
  cpu: number
}

export interface ProcessResult {
  files: FileResult[]
  failures: Failure[]
  skipReasons: string[]
  parts: UsedPart[]
}

export interface ProcessOptions {
  /** For its report; nothing else with this name is there. */
  report: string
  environment: NodeJS.ProcessEnv
  mostMs: number
  /** Its output goes to the terminal, with the name of each test. */
  isShown: boolean
}

const SUPPORT = import.meta.dirname
const OPTIONS = ['--enable-source-maps', `--import=${pathToFileURL(path.join(SUPPORT, 'file-end.js'))}`]
const SPEC = ['--test-reporter=spec', '--test-reporter-destination=stdout']
/** The end of what a process printed says why it failed. */
const MOST_OUTPUT = 8_000
/** A process that it left behind may hold its output open. */
const OUTPUT_GRACE_MS = 1_000

interface Exit {
  /** Undefined for success. */
  trouble: string | undefined
  output: string
  seconds: number
}

const running = new Set<() => void>()

/** Ends all that run, and what they started. */
export function endTestProcesses(): void {
  for (const end of running) end()
}

function runToEnd(entry: string, { report, environment, mostMs, isShown }: ProcessOptions): Promise<Exit> {
  const startedAt = performance.now()
  const reporters = [
    `--test-reporter=${path.join(SUPPORT, 'outcome-reporter.js')}`,
    `--test-reporter-destination=${report}`,
  ]
  const child = spawn(process.execPath, [...OPTIONS, ...reporters, ...(isShown ? SPEC : []), entry], {
    env: { ...environment, [PARTS_VARIABLE]: `${report}.parts` },
    stdio: isShown ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    // The kernel shares the processors among sessions (sched(7), autogroup). In one session an admin thread, whose priority
    // is low, gets next to nothing beside other files: console/jobs took 355 s and failed, and takes 37 s.
    detached: !isShown,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => {
      output = (output + chunk).slice(-MOST_OUTPUT)
    })
  const end = () => {
    if (child.pid !== undefined) endChildrenOf(child.pid)
    child.kill('SIGKILL')
  }
  running.add(end)
  let trouble: string | undefined
  const timer = setTimeout(() => {
    trouble = `ended after ${Math.round(mostMs / 1000)} s`
    end()
  }, mostMs)
  return new Promise((resolve, reject) => {
    const finish = () => resolve({ trouble, output, seconds: (performance.now() - startedAt) / 1000 })
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      running.delete(end)
      if (code !== 0) trouble ??= code === null ? `ended by ${signal}` : `ended with exit code ${code}`
      setTimeout(finish, OUTPUT_GRACE_MS).unref()
    })
    child.once('close', finish)
  })
}

function linesOf<T>(file: string): T[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  return lines.map((line) => JSON.parse(line) as T)
}

export async function runTestProcess({ entry, files }: TestProcess, options: ProcessOptions): Promise<ProcessResult> {
  const exit = await runToEnd(entry, options)
  return resultOf(files.map(sourceName), linesOf(options.report), linesOf(`${options.report}.parts`), exit)
}

/** A test that a helper declares is one of the file that ran before it, or of the first. */
function inTheirFiles(names: readonly string[], ends: readonly TestEnd[]): TestEnd[] {
  let file = names[0] ?? ''
  return ends.map((end) => {
    if (names.includes(end.file)) file = end.file
    return { ...end, file }
  })
}

/** @param names the files of the process. What it spent is theirs by the times of their tests. */
export function resultOf(
  names: readonly string[],
  reported: readonly TestEnd[],
  allParts: readonly UsedPart[],
  { trouble, output, seconds }: Exit,
): ProcessResult {
  const ends = inTheirFiles(names, reported)
  const isOwn = ({ kind }: UsedPart) => kind === 'test process'
  // Without a report of its own it was killed.
  const cpu = allParts.find(isOwn)?.cpu ?? 0
  const failures = ends.flatMap(({ file, name, error }) => (error === undefined ? [] : [{ file, name, error }]))
  // Of several files it is the last one with a test, or any of them where it did not come to one.
  if (trouble !== undefined && failures.length === 0) {
    const last = ends.at(-1)?.file
    for (const file of last === undefined ? names : [last])
      failures.push({ file, name: '', error: `${trouble}\n${output}` })
  }
  const testSeconds = (file: string) =>
    ends.reduce((sum, end) => sum + (end.file === file ? (end.seconds ?? 0) : 0), 0.01)
  const allTests = names.reduce((sum, file) => sum + testSeconds(file), 0)
  return {
    files: names.map((file) => {
      const count = (result: TestEnd['result']) =>
        ends.filter((end) => end.file === file && end.result === result).length
      const share = testSeconds(file) / allTests
      const wholeFailures = failures.filter((failure) => failure.file === file && failure.name === '').length
      return {
        file,
        passed: count('passed'),
        failed: count('failed') + wholeFailures,
        skipped: count('skipped'),
        seconds: seconds * share,
        cpu: cpu * share,
      }
    }),
    failures,
    skipReasons: ends.flatMap(({ skipReason }) => skipReason ?? []),
    parts: allParts.filter((part) => !isOwn(part)),
  }
}
