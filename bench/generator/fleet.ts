/** The generator processes as their parent (`run.ts`) sees them, and the messages between them: plain data over IPC. */

import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Target } from '../client/http.ts'
import type { FailureCounts, StatsSnapshot } from '../measure/stats.ts'
import type { Proof } from '../scenario/scenario.ts'
import type { ScenarioName } from '../scenario/table.ts'

/** One process's share of the work. */
export interface GeneratorJob {
  target: Target
  scenario: ScenarioName
  /** Clients of the closed loop. */
  clients: number
  /** Most connections of the open loop. */
  connections: number
  accounts: number
  /** Index of its first account; shares of different processes do not overlap. */
  firstAccount: number
  /** Makes its names differ from every other process's. */
  runId: string
}

/** Load of the open loop. */
export interface Arrivals {
  /** Run in order. A fleet divides `perSecond` among its processes. */
  steps: { perSecond: number; forMs: number /** Who still waits at its end goes away. */; leaveAtEnd?: boolean }[]
  /** How long an arrival waits for a connection. */
  patienceMs: number
}

/**
 * A closed loop ends at a time or after a number of operations begun, an open one when its arrivals do.
 * Operations that have begun are finished. Counts over time are kept in slots of `slotMs`, by default a second.
 */
export type Phase = ({ forMs: number } | { operations: number } | { arrivals: Arrivals }) & { slotMs?: number }

export type ToGenerator =
  | { type: 'prepare'; job: GeneratorJob }
  | { type: 'run'; phase: Phase }
  | { type: 'stop' }
  | { type: 'check' }
  /** The proof of this number is known to the responders. */
  | { type: 'published'; number: number }

/** Since the phase began. */
export interface Progress {
  operations: number
  failed: number
  refused: number
  dropped: number
}

export type FromGenerator =
  | { type: 'prepared' }
  | ({ type: 'progress' } & Progress)
  | { type: 'publish'; number: number; proof: Proof }
  /** CPU of this process from the start of the phase until its last operation ended. */
  | { type: 'ran'; stats: StatsSnapshot; cpuMicros: number }
  | { type: 'checked'; checked: number; failures: FailureCounts }
  | { type: 'failed'; reason: string }

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
