/** A receiver in a process of its own that a test kills and starts again on the same port and file. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { freePort } from '../support/free-port.ts'

export class Killable {
  readonly port: number
  readonly #entry: string
  readonly #file: string
  #child: ChildProcess | undefined

  private constructor(entry: string, port: number, file: string) {
    this.#entry = path.resolve(import.meta.dirname, '../../bench/faults/parts', entry)
    this.port = port
    this.#file = file
  }

  /** @param entry among the parts of the fault stand; it is given port and file */
  static async start(entry: string, file: string): Promise<Killable> {
    const made = new Killable(entry, await freePort(), file)
    await made.start()
    return made
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [this.#entry, String(this.port), this.#file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#child = child
    await once(child.stdout as NodeJS.ReadableStream, 'data')
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  /** What it has taken so far, one JSON object a line. */
  lines<T>(): T[] {
    if (!existsSync(this.#file)) return []
    const text = readFileSync(this.#file, 'utf8')
    // The last line of a killed process may be half a line.
    return text
      .slice(0, text.lastIndexOf('\n') + 1)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as T)
  }
}
