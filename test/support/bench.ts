/** The bench as users start it, what it writes with `--json`, and what it must not leave behind. */

import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { BenchDocument } from '../../bench/report/document.ts'
import type { Result } from '../../bench/report/result.ts'
import { isBroken } from '../../bench/report/summary.ts'
import { noted } from './run/used-parts.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')

export interface BenchRun {
  child: ChildProcess
  /** @returns when it has written this */
  wrote(what: RegExp): Promise<void>
  done: Promise<{ code: number | null; output: string }>
}

/** @param folder for its temporary files; it is in a process group of its own */
export function startBench(folder: string, ...args: string[]): BenchRun {
  const env = { ...process.env, TMPDIR: folder }
  const child = spawn(process.execPath, [MAIN, ...args], { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const looks: (() => void)[] = []
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      for (const look of looks) look()
    })
  return {
    child,
    wrote: (what) =>
      new Promise((resolve, reject) => {
        const look = () => what.test(output) && resolve()
        looks.push(look)
        look()
        child.once('close', () => reject(new Error(`the bench ended and did not write ${what}: ${output}`)))
      }),
    done: noted('bench', () => new Promise((resolve) => child.once('close', (code) => resolve({ code, output })))),
  }
}

export function runBench(folder: string, ...args: string[]): BenchRun['done'] {
  return startBench(folder, ...args).done
}

export function readDocument(file: string): BenchDocument {
  return JSON.parse(readFileSync(file, 'utf8')) as BenchDocument
}

/** All that was measured, by scenario and load, then by round, then by server. */
export function resultsIn(file: string): Result[] {
  return readDocument(file)
    .measurements.flatMap(({ rounds }) => rounds.flat())
    .filter((turn): turn is Result => !isBroken(turn))
}

/** Folders of the bench, and command lines of processes that work in this folder (Linux). */
export function leftIn(folder: string): string[] {
  const commands = readdirSync('/proc').flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')] : []
    } catch {
      // Ended meanwhile.
      return []
    }
  })
  const folders = readdirSync(folder).filter((name) => name.startsWith('chancery-bench-'))
  return [...folders, ...commands.filter((command) => command.includes(folder))]
}
