/** Reads what `npm run bench -- --json FILE` has written. */

import { readFileSync } from 'node:fs'
import type { BenchDocument } from '../../bench/report/document.ts'
import type { Result } from '../../bench/report/result.ts'
import { isBroken } from '../../bench/report/summary.ts'

export function readDocument(file: string): BenchDocument {
  return JSON.parse(readFileSync(file, 'utf8')) as BenchDocument
}

/** All that was measured, by scenario and load, then by round, then by server. */
export function resultsIn(file: string): Result[] {
  return readDocument(file)
    .measurements.flatMap(({ rounds }) => rounds.flat())
    .filter((turn): turn is Result => !isBroken(turn))
}
