/** The generator processes as their parent sees them: started, spoken to and ended together. */

import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Proof } from '../scenario/challenge.ts'
import { Unsupported } from '../scenario/scenario.ts'
import type { FromGenerator, GeneratorJob, Phase, Progress, ToGenerator } from './messages.ts'

type Reply<Type extends FromGenerator['type']> = Extract<FromGenerator, { type: Type }>

const NOTHING_DONE: Progress = { operations: 0, failures: 0, refused: 0, dropped: 0 }

/** A young generation so large that what one request leaves behind is dead before it would be copied. */
const NODE_FLAGS = ['--max-semi-space-size=32']

const ENTRY = fileURLToPath(new URL('./process.js', import.meta.url))

export class Fleet {
  readonly #generators: Generator[]

  /** One process per job; `publish` makes a proof known to the responders. */
  constructor(jobs: readonly GeneratorJob[], publish: (proof: Proof) => void) {
    this.#generators = jobs.map((job) => new Generator(job, publish))
  }

  /** @returns the account thumbprints of all jobs in the order of account indices, and new accounts by job. @throws Error */
  async prepare(): Promise<{ thumbprints: string[]; newAccounts: string[][] }> {
    const ready = await this.#ask('ready', (generator) => ({ type: 'prepare', job: generator.job }))
    return {
      thumbprints: ready.flatMap(({ thumbprints }) => thumbprints),
      newAccounts: ready.map(({ newAccounts }) => newAccounts),
    }
  }

  /** @throws Error, Unsupported */
  async prepareAccounts(): Promise<void> {
    await this.#ask('accounts-prepared', () => ({ type: 'prepare-accounts' }))
  }

  finish(): Promise<Reply<'finished'>[]> {
    return this.#ask('finished', () => ({ type: 'finish' }))
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

  /** Ends the processes; whoever waits for one of them, or asks it later, hears the reason. */
  kill(reason: Error): void {
    for (const generator of this.#generators) generator.kill(reason)
  }

  get progress(): Progress {
    const sum = (name: keyof Progress) => this.#generators.reduce((total, { progress }) => total + progress[name], 0)
    return {
      operations: sum('operations'),
      failures: sum('failures'),
      refused: sum('refused'),
      dropped: sum('dropped'),
    }
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
    // 'advanced' carries typed arrays, which histograms are.
    this.#child = fork(ENTRY, [], {
      detached: true,
      serialization: 'advanced',
      execArgv: [...process.execArgv, ...NODE_FLAGS],
    })
    this.#child.on('message', (message: FromGenerator) => this.#receive(message))
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#end ??= new Error(`a generator process ended early (${signal ?? `code ${code}`})`)
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

  kill(reason: Error): void {
    this.#end ??= reason
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
    } else if (message.type === 'failed')
      this.#waiting?.reject(message.unsupported ? new Unsupported(message.reason) : new Error(message.reason))
    else if (message.type === this.#waiting?.type) this.#waiting.resolve(message)
  }
}
