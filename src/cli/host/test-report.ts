/** What a test of the backends has checked so far: printed line by line, or as JSON at the end. */

export interface TestTarget {
  backend: string
  /** The first profile that it serves. */
  profile: string
}

export class TestReport {
  readonly #target: TestTarget
  readonly #isJson: boolean
  readonly #checks: string[] = []
  readonly #facts: Record<string, unknown> = {}
  #failure: string | undefined

  constructor(target: TestTarget, isJson: boolean) {
    this.#target = target
    this.#isJson = isJson
  }

  /** A check that has passed. */
  passed(check: string): void {
    this.#checks.push(check)
    if (!this.#isJson) console.log(`${this.#target.backend}: ${check}`)
  }

  /** For programs. */
  fact(name: string, value: unknown): void {
    this.#facts[name] = value
  }

  /** Something that is going on, for whoever waits. */
  notice(text: string): void {
    process.stderr.write(`${this.#target.backend}: ${text}\n`)
  }

  failed(error: unknown): void {
    this.#failure = error instanceof Error ? error.message : String(error)
  }

  get failure(): string | undefined {
    return this.#failure
  }

  toJSON(): object {
    const result = this.#failure === undefined ? 'passed' : 'failed'
    return { ...this.#target, result, checks: this.#checks, failure: this.#failure, ...this.#facts }
  }
}
