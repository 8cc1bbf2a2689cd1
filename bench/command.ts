/** The type of a command of the bench. */

import type { Command as ProgramCommand, Raw } from '../src/shared/command-line.ts'
import type { Plan } from './options.ts'
import type { Parts } from './report/document.ts'
import type { Surroundings } from './run.ts'

export interface Command extends Pick<ProgramCommand, 'about' | 'examples' | 'options'> {
  /** Prints what it measures. @throws UsageError before anything starts; Interrupted; Error in a plain sentence */
  run(raw: Raw, around: Surroundings): Promise<Outcome>
}

export interface Outcome {
  plan: Plan
  /** For the files. */
  parts: Parts
  /** Whether every operation of every server went well. */
  isGood: boolean
}
