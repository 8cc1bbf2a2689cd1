/** Runs the files of a ring, several processes at once, the longest first. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { processesOf, type TestProcess } from './chosen-files.ts'
import type { Ledger } from './ledger.ts'
import { sourceName } from './outcome-reporter.ts'
import { Progress } from './progress.ts'
import { type ProcessResult, runTestProcess } from './test-process.ts'

export interface RingRun {
  name: string
  files: readonly string[]
  environment: NodeJS.ProcessEnv
  atOnce: number
  mostMs: number
  /** What the files took before. */
  before: Ledger
  /** Of the rings after this one. */
  laterSeconds: number
  isInterrupted(): boolean
}

export const secondsBefore = (before: Ledger, file: string) => before.get(`file\t${sourceName(file)}`)?.seconds

/** The longest first: what begins last then ends soon, and the processors are busy to the end. */
export function longestFirst(processes: readonly TestProcess[], before: Ledger): TestProcess[] {
  const seconds = ({ files }: TestProcess) =>
    files.reduce((sum, file) => sum + (secondsBefore(before, file) ?? 0), files.length / 1000)
  return [...processes].sort((a, b) => seconds(b) - seconds(a))
}

const titleOf = ({ files }: TestProcess) => {
  const [first = '', ...others] = files.map(sourceName)
  return others.length === 0 ? first : `${first} and ${others.length} more`
}

export async function runRing(ring: RingRun): Promise<ProcessResult> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-run-'))
  const processes = longestFirst(processesOf(ring.files, folder), ring.before)
  const planned = processes.map((process) => {
    const known = process.files.flatMap((file) => secondsBefore(ring.before, file) ?? [])
    return { name: titleOf(process), seconds: known.length > 0 ? known.reduce((a, b) => a + b) : undefined }
  })
  const progress = new Progress(ring.name, planned, ring.atOnce, ring.laterSeconds)
  const results: ProcessResult[] = []
  let next = 0

  async function work(): Promise<void> {
    while (next < processes.length && !ring.isInterrupted()) {
      const number = next++
      const process = processes[number]!
      const { entry, files } = process
      if (entry !== files[0]) writeFileSync(entry, files.map((file) => `import '${pathToFileURL(file)}'\n`).join(''))
      const title = titleOf(process)
      progress.started(title)
      const result = await runTestProcess(process, {
        report: path.join(folder, `report-${number}`),
        environment: ring.environment,
        mostMs: ring.mostMs,
        // Whoever runs one file wants to see its tests.
        isShown: processes.length === 1,
      })
      results.push(result)
      const failed = [...new Set(result.failures.map(({ file }) => file))]
      progress.ended(
        title,
        result.files.reduce((sum, { seconds }) => sum + seconds, 0),
        failed.length > 0,
      )
      for (const file of failed) progress.say(`failed: ${file}`)
    }
  }

  try {
    await Promise.all(Array.from({ length: Math.min(ring.atOnce, processes.length) }, work))
  } finally {
    progress.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return joined(results)
}

export const joined = (results: readonly ProcessResult[]): ProcessResult => ({
  files: results.flatMap(({ files }) => files),
  failures: results.flatMap(({ failures }) => failures),
  skipReasons: [...new Set(results.flatMap(({ skipReasons }) => skipReasons))],
  parts: results.flatMap(({ parts }) => parts),
})
