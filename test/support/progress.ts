/** The progress of a run: on a terminal one line that is written anew, elsewhere a line a while. */

import type { WriteStream } from 'node:tty'

/** For a file that the ledger does not know; it is a short one. */
const UNKNOWN_SECONDS = 0.5
const LINE_EVERY_MS = 30_000
const REWRITE_EVERY_MS = 1_000

/** The time left when so many run at once: the sum by shares, and never less than the longest one. */
export function secondsLeft(expected: readonly number[], atOnce: number): number {
  const sum = expected.reduce((total, seconds) => total + seconds, 0)
  return Math.max(sum / atOnce, ...expected, 0)
}

export function clockTime(inSeconds: number, now = new Date()): string {
  return new Date(now.getTime() + inSeconds * 1000).toTimeString().slice(0, 5)
}

export const duration = (seconds: number) =>
  seconds < 90 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`

export interface Planned {
  name: string
  seconds: number | undefined
}

export class Progress {
  readonly #atOnce: number
  readonly #out: WriteStream
  readonly #left = new Map<string, number>()
  readonly #runningSince = new Map<string, number>()
  readonly #count: number
  #failed = 0
  #expectedDone = 0
  #spent = 0
  #writtenAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor(planned: readonly Planned[], atOnce: number, out = process.stdout) {
    this.#atOnce = atOnce
    this.#out = out
    this.#count = planned.length
    for (const { name, seconds } of planned) this.#left.set(name, seconds ?? UNKNOWN_SECONDS)
    this.#timer = setInterval(() => this.#write(), REWRITE_EVERY_MS).unref()
  }

  started(name: string): void {
    this.#runningSince.set(name, performance.now())
  }

  ended(name: string, seconds: number, isFailed: boolean): void {
    this.#expectedDone += this.#left.get(name) ?? 0
    this.#spent += seconds
    this.#left.delete(name)
    this.#runningSince.delete(name)
    if (isFailed) this.#failed++
  }

  /** Above the line of progress. */
  say(line: string): void {
    if (this.#out.isTTY) this.#out.write('\r\x1b[2K')
    this.#out.write(`${line}\n`)
  }

  stop(): void {
    clearInterval(this.#timer)
    if (this.#out.isTTY) this.#out.write('\r\x1b[2K')
  }

  #text(): string {
    const now = performance.now()
    // A slower machine than the ledger's shows after some files.
    const pace = this.#expectedDone > UNKNOWN_SECONDS ? this.#spent / this.#expectedDone : 1
    const expected = [...this.#left].map(([name, seconds]) => {
      const since = this.#runningSince.get(name)
      return Math.max(0, seconds * pace - (since === undefined ? 0 : (now - since) / 1000))
    })
    const left = secondsLeft(expected, this.#atOnce)
    const [oldest] = this.#runningSince
    return [
      `${this.#count - this.#left.size} of ${this.#count}`,
      ...(this.#failed > 0 ? [`${this.#failed} failed`] : []),
      `ends at about ${clockTime(left)} (${duration(left)})`,
      ...(oldest ? [`${oldest[0]} runs for ${duration((now - oldest[1]) / 1000)}`] : []),
    ].join(', ')
  }

  #write(): void {
    if (this.#out.isTTY) {
      this.#out.write(`\r\x1b[2K${this.#text().slice(0, (this.#out.columns || 80) - 1)}`)
      return
    }
    if (performance.now() - this.#writtenAt < LINE_EVERY_MS) return
    this.#writtenAt = performance.now()
    this.#out.write(`${this.#text()}\n`)
  }
}
