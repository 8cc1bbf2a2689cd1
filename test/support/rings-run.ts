/** Runs the files of the rings, several processes at once, the longest of a ring first. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { processesOf, type Ring, type TestProcess } from './chosen-files.ts'
import type { Ledger } from './ledger.ts'
import { sourceName } from './outcome-reporter.ts'
import { Progress } from './progress.ts'
import { type Failure, type ProcessResult, runTestProcess } from './test-process.ts'

export interface RunChoices {
  environment: NodeJS.ProcessEnv
  /** Starts what the files of a ring share, once. */
  startFor(ring: Ring): Promise<void>
  atOnce: number
  mostMs: number
  /** The costs of the files before. */
  before: Ledger
  /** After a failure no ring begins. */
  endsWithFailure: boolean
  /** A few failed files get a second run, each by itself. */
  mayRetry: boolean
  /** A developer who runs one file wants to see its tests. */
  isShown: boolean
  isInterrupted(): boolean
}

/** The result of a process. */
export interface RingResult extends ProcessResult {
  ring: Ring
}

export interface Run {
  results: RingResult[]
  /** Failures of files that passed when they ran alone. */
  faults: Failure[]
  /** Rings with files that did not run after a failure. */
  left: string[]
}

/** More than this is no race. */
const MOST_RETRIED_FILES = 3

export const secondsBefore = (before: Ledger, file: string) => before.get(`file\t${sourceName(file)}`)?.seconds

/** The longest first: what begins last then ends soon, and the processors are busy to the end. */
export function longestFirst<T extends TestProcess>(processes: readonly T[], before: Ledger): T[] {
  const seconds = ({ files }: TestProcess) =>
    files.reduce((sum, file) => sum + (secondsBefore(before, file) ?? 0), files.length / 1000)
  return [...processes].sort((a, b) => seconds(b) - seconds(a))
}

interface Queued extends TestProcess {
  ring: Ring
  title: string
}

const titleOf = ({ files }: TestProcess) => {
  const [first = '', ...others] = files.map(sourceName)
  return others.length === 0 ? first : `${first} and ${others.length} more`
}

function queueOf(rings: readonly Ring[], folder: string, { before }: RunChoices): Queued[] {
  return rings.flatMap((ring) => {
    const processes = processesOf(ring.files, folder, (file) => secondsBefore(before, file))
    return longestFirst(
      processes.map((process) => ({ ...process, ring, title: titleOf(process) })),
      before,
    )
  })
}

const failedFiles = (results: readonly ProcessResult[]) => [
  ...new Set(results.flatMap(({ failures }) => failures.map(({ file }) => file))),
]

export async function runRings(rings: readonly Ring[], choices: RunChoices): Promise<Run> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-run-'))
  const queue = queueOf(rings, folder, choices)
  const planned = queue.map(({ files, title }) => {
    const known = files.flatMap((file) => secondsBefore(choices.before, file) ?? [])
    return { name: title, seconds: known.length > 0 ? known.reduce((a, b) => a + b) : undefined }
  })
  const progress = new Progress(planned, choices.atOnce)
  const isShown = choices.isShown && queue.length === 1
  if (isShown) progress.stop()
  const run: Run = { results: [], faults: [], left: [] }
  let reports = 0

  function runProcess(process: TestProcess): Promise<ProcessResult> {
    const { environment, mostMs } = choices
    return runTestProcess(process, { report: path.join(folder, `report-${reports++}`), environment, mostMs, isShown })
  }

  function mayStart({ ring }: Queued): boolean {
    if (choices.isInterrupted()) return false
    const hasFailed = (earlier: Ring) => run.results.some((one) => one.ring === earlier && one.failures.length > 0)
    return !choices.endsWithFailure || !rings.slice(0, rings.indexOf(ring)).some(hasFailed)
  }

  /** A file of the next ring begins while the last ones of a ring still run. */
  async function work(): Promise<void> {
    while (queue[0] !== undefined && mayStart(queue[0])) {
      const { ring, title, entry, files } = queue.shift()!
      await choices.startFor(ring)
      if (entry !== files[0]) writeFileSync(entry, files.map((file) => `import '${pathToFileURL(file)}'\n`).join(''))
      progress.started(title)
      const result = await runProcess({ entry, files })
      run.results.push({ ...result, ring })
      const failed = failedFiles([result])
      progress.ended(
        title,
        result.files.reduce((sum, { seconds }) => sum + seconds, 0),
        failed.length > 0,
      )
      for (const file of failed) progress.say(`failed: ${file}`)
    }
  }

  async function retry(): Promise<void> {
    const failed = failedFiles(run.results)
    if (!choices.mayRetry || choices.isInterrupted() || failed.length === 0 || failed.length > MOST_RETRIED_FILES)
      return
    progress.say(`failed beside others, so run once more alone: ${failed.join(', ')}`)
    for (const file of rings.flatMap(({ files }) => files)) {
      const name = sourceName(file)
      if (!failed.includes(name)) continue
      const again = await runProcess({ entry: file, files: [file] })
      if (again.failures.length > 0) continue
      run.faults.push(...run.results.flatMap(({ failures }) => failures.filter((failure) => failure.file === name)))
      run.results = run.results.map((first) => passedAgain(first, again))
    }
  }

  try {
    do {
      await Promise.all(Array.from({ length: Math.min(choices.atOnce, queue.length) }, work))
      await retry()
    } while (queue[0] !== undefined && mayStart(queue[0]))
  } finally {
    progress.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  run.left = [...new Set(queue.map(({ ring }) => ring.name))]
  return run
}

/** Its tests count once, and the time of both runs counts. */
function passedAgain(first: RingResult, { files: [again], parts }: ProcessResult): RingResult {
  const former = first.files.find(({ file }) => file === again?.file)
  if (again === undefined || former === undefined) return first
  const both = { ...again, seconds: former.seconds + again.seconds, cpu: former.cpu + again.cpu }
  return {
    ...first,
    files: first.files.map((one) => (one === former ? both : one)),
    failures: first.failures.filter(({ file }) => file !== again.file),
    parts: [...first.parts, ...parts],
  }
}
