/** The log of a key ceremony: steps with their times, and fingerprints for later checks. */

import { appendFileSync } from 'node:fs'
import { messageOf } from '../../src/shared/lib/errors.ts'

export interface LogPlaces {
  /** Gets every line immediately. */
  show(line: string): void
  /** Has the logs of earlier ceremonies, too. */
  file: string
}

/**
 * Logs the steps of `work`, and appends them to the file when it has ended, with an error or not.
 * @param what the ceremony, such as `signing of a CRL`
 * @throws the error of `work`
 */
export async function logged(
  what: string,
  facts: Readonly<Record<string, string>>,
  { show, file }: LogPlaces,
  work: (log: CeremonyLog) => Promise<void>,
): Promise<void> {
  const log = new CeremonyLog(show)
  log.step(`${what} begins`, facts)
  try {
    await work(log)
  } catch (error) {
    const [subject] = what.split(' ')
    log.step(`${subject} ends with an error: ${messageOf(error)}`)
    throw error
  } finally {
    log.append(file)
  }
}

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

  append(file: string): void {
    appendFileSync(file, `${this.#lines.join('\n')}\n`, { mode: 0o644, flush: true })
  }

  #add(line: string): void {
    this.#lines.push(line)
    this.#show(line)
  }
}
