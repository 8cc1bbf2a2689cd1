/** The generator processes as their parent sees them: started, spoken to and ended together. */

import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Proof } from '../scenario/challenge.ts'
import type { FromGenerator, GeneratorJob, Phase, Progress, ToGenerator } from './messages.ts'

type Reply<Type extends FromGenerator['type']> = Extract<FromGenerator, { type: Type }>

const NOTHING_DONE: Progress = { operations: 0, failed: 0, refused: 0, dropped: 0 }

/** A young generation so large that what one request leaves behind is dead before it would be copied. */
const NODE_FLAGS = ['--max-semi-space-size=32']

const ENTRY = fileURLToPath(new URL('./process.js', import.meta.url))

export class Fleet {
  readonly #generators: Generator[]

  /** One process per job; `publish` makes a proof known to the responders. */
  constructor(jobs: readonly GeneratorJob[], publish: (proof: Proof) => void) {
    this.#generators = jobs.map((job) => new Generator(job, publish))
  }

  /** Accounts, and what the scenario needs for each; responders run by then. @throws Error */
  async prepare(): Promise<void> {
    await this.#ask('prepared', (generator) => ({ type: 'prepare', job: generator.job }))
  }

  /** Runs one phase in all processes at once; a number of operations or a rate is divided among them. @throws Error */
  run(phase: Phase): Promise<Reply<'ran'>[]> {
    for (const generator of this.#generators) generator.progress = NOTHING_DONE
    return this.#ask('ran', (_, index) => ({ type: 'run', phase: partOf(phase, this.#generators.length, index) }))
  }

  check(): Promise<Reply<'checked'>[]> {
    return this.#ask('checked', () => ({ type: 'check' }))
  }

  /** Ends the phase under way: nothing new is begun. */
  stop(): void {
    for (const generator of this.#generators) generator.send({ type: 'stop' })
  }

  /** Ends the processes; promises that wait for one of them reject. */
  kill(): void {
    for (const generator of this.#generators) generator.kill()
  }

  get progress(): Progress {
    const sum = { ...NOTHING_DONE }
    for (const name of Object.keys(sum) as (keyof Progress)[])
      for (const { progress } of this.#generators) sum[name] += progress[name]
    return sum
  }

  async close(): Promise<void> {
    await Promise.all(this.#generators.map((generator) => generator.close()))
  }

  #ask<Type extends FromGenerator['type']>(
    type: Type,
    request: (generator: Generator, index: number) => ToGenerator,
  ): Promise<Reply<Type>[]> {
    return Promise.all(this.#generators.map((generator, index) => generator.ask(type, request(generator, index))))
  }
}

/** Part `index` of `total` divided by `parts` as evenly as whole numbers allow. */
export function shareOf(total: number, parts: number, index: number): number {
  return Math.floor(total / parts) + (index < total % parts ? 1 : 0)
}

function partOf(phase: Phase, parts: number, index: number): Phase {
  if ('operations' in phase) return { ...phase, operations: shareOf(phase.operations, parts, index) }
  if (!('arrivals' in phase)) return phase
  const steps = phase.arrivals.steps.map((step) => ({ ...step, perSecond: step.perSecond / parts }))
  return { ...phase, arrivals: { ...phase.arrivals, steps } }
}

class Generator {
  readonly job: GeneratorJob
  progress = NOTHING_DONE
  readonly #child: ChildProcess
  readonly #exited: Promise<void>
  readonly #publish: (proof: Proof) => void
  /** Why it answers no more. */
  #end: Error | undefined
  #waiting: { type: string; resolve(message: FromGenerator): void; reject(error: Error): void } | undefined

  constructor(job: GeneratorJob, publish: (proof: Proof) => void) {
    this.job = job
    this.#publish = publish
    this.#child = fork(ENTRY, [], { detached: true, execArgv: [...process.execArgv, ...NODE_FLAGS] })
    this.#child.on('message', (message: FromGenerator) => this.#receive(message))
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#end = new Error(`a generator process ended early (${signal ?? `code ${code}`})`)
        this.#waiting?.reject(this.#end)
        resolve()
      })
    })
  }

  send(message: ToGenerator): void {
    // One that has just ended tells so by its exit.
    if (this.#child.connected) this.#child.send(message, () => undefined)
  }

  ask<Type extends FromGenerator['type']>(type: Type, message: ToGenerator): Promise<Reply<Type>> {
    if (this.#end) return Promise.reject(this.#end)
    return new Promise((resolve, reject) => {
      this.#waiting = { type, resolve: (reply) => resolve(reply as Reply<Type>), reject }
      this.send(message)
    })
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  close(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect()
    return this.#exited
  }

  #receive(message: FromGenerator): void {
    if (message.type === 'progress') this.progress = message
    else if (message.type === 'publish') {
      this.#publish(message.proof)
      this.send({ type: 'published', number: message.number })
    } else if (message.type === 'failed') this.#waiting?.reject(new Error(message.reason))
    else if (message.type === this.#waiting?.type) this.#waiting.resolve(message)
  }
}
