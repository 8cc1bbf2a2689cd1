/**
 * The log of a key ceremony: what was done when, with the fingerprints by
 * which it can be checked later.
 */

import { appendFileSync } from 'node:fs'

/**
 * Lines are shown as they come, and written to the file at the end together with
 * what went wrong, if anything did.
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

  /** Behind what earlier ceremonies in the same folder wrote. */
  append(file: string): void {
    appendFileSync(file, `${this.#lines.join('\n')}\n`, { mode: 0o644, flush: true })
  }

  #add(line: string): void {
    this.#lines.push(line)
    this.#show(line)
  }
}
