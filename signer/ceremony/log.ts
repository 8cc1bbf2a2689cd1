/** The log of a key ceremony: steps with their times, and fingerprints for later checks. */

import { appendFileSync } from 'node:fs'

/**
 * Shows each line immediately. The caller writes all lines to the file at the end, an error
 * included.
 */
export class CeremonyLog {
  readonly #lines: string[] = []
  readonly #show: (line: string) => void

  constructor(show: (line: string) => void) {
    this.#show = show
  }

  /** One step, with its facts below it. */
  step(what: string, facts: Readonly<Record<string, string>> = {}): void {
    this.#add(`${new Date().toISOString()} ${what}`)
    for (const [name, value] of Object.entries(facts)) this.#add(`    ${name}: ${value}`)
  }

  /** Appends to the log of earlier ceremonies in the same folder. */
  append(file: string): void {
    appendFileSync(file, `${this.#lines.join('\n')}\n`, { mode: 0o644, flush: true })
  }

  #add(line: string): void {
    this.#lines.push(line)
    this.#show(line)
  }
}
