/** What a command of the bench is, and what those have in common that load servers. */

import { type Interrupt, unlessInterrupted } from './interrupt.ts'
import { type OutputFiles, writeOutput } from './options/outputs.ts'
import type { Flag, Raw } from './options/reader.ts'
import type { BenchDocument, beginDocument } from './report/document.ts'
import { renderHtml } from './report/html/page.ts'
import type { ProgressLine } from './report/progress.ts'
import type { Contestant } from './servers/contestant.ts'

/** What every command has: a progress line, signals that end it, and a document that begins with it. */
export interface Session {
  progress: ProgressLine
  interrupt: Interrupt
  document: ReturnType<typeof beginDocument>
}

export interface Command {
  /** Lines that `--help` begins with. */
  description: string[]
  examples: string[]
  flags: readonly Flag[]
  /** Words that belong to no option are for it to judge. */
  takesWords?: boolean
  /**
   * @returns whether every operation of every server went well, and all that was asked for is written.
   * @throws OptionsError before anything starts; Interrupted; Error in a plain sentence
   */
  run(raw: Raw, session: Session): Promise<boolean>
}

export const EXIT_CODES =
  'Ends with 0 when every operation of every server went well (refusals with 503 and Retry-After, and arrivals that an open loop drops, do not count), with 1 when one failed, nothing succeeded, a server broke or a file could not be written, with 2 before anything starts when an option is wrong, and with 130 after Ctrl-C.'

/** @returns undefined when it was interrupted, or another project's server broke: that is said, and does not end the run. */
export async function othersMayBreak<T>({ subject, restart }: Contestant, running: Promise<T>): Promise<T | undefined> {
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

export function writeLine(line: string): void {
  process.stdout.write(`${line}\n`)
}

export function subjectsOf(contestants: readonly Contestant[]) {
  return contestants.map(({ subject }) => subject)
}

/** @returns whether all that was asked for is written. */
export function writeReports({ jsonFile, htmlFile }: OutputFiles, document: BenchDocument): boolean {
  const isPage = writeOutput('html', htmlFile, () => renderHtml(document))
  return writeOutput('json', jsonFile, () => `${JSON.stringify(document, null, 2)}\n`) && isPage
}
