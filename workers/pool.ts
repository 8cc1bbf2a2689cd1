/**
 * The supervisor's side of the validation threads: a bounded pool.
 *
 * Jobs wait here, so the bound is exact and a job's clock starts in its thread (worker-thread.ts).
 * A task limits itself by `job.timeoutMs`. The pool replaces a thread that stays silent beyond a
 * grace. Jobs of a lost thread end as `lost`, which says nothing about the target.
 */

import { Piscina } from 'piscina'
import { programFile } from '../src/shared/lib/program-files.ts'
import { THREAD_HEAP } from '../src/shared/lib/shared-memory.ts'
import { Slots } from '../src/shared/lib/slots.ts'
import type { CaaFinding, CaaJob, MailDomainFinding, MailDomainJob, ValidationJob, ValidationVerdict } from './job.ts'
import { WorkerPoolError } from './job.ts'
import { WorkerThread } from './worker-thread.ts'

export interface WorkerPoolOptions {
  threads: number
  concurrentTasksPerThread: number
  /** Jobs that may wait while all threads are full. */
  maxQueue: number
  /** Called with the error that stopped a thread, for the log. */
  onThreadError?: (error: Error) => void
  /** Compiled module whose exports are the tasks. */
  taskFile?: URL
  /** Worker data of the threads. */
  threadData?: object
  /** Default `THREAD_HEAP`. */
  heapLimits?: { maxOldGenerationSizeMb: number; maxYoungGenerationSizeMb: number }
  /** How long after its deadline a silent task marks its thread as stuck. */
  graceMs?: number
}

interface Work {
  job: ValidationJob | CaaJob | MailDomainJob
  /** The task ends itself within this time. */
  timeoutMs: number
  /** Export of the task file. */
  task: 'default' | 'checkCaa' | 'checkMailDomains'
}

/** Covers the start of a thread (150 ms) and a burst on a busy machine. */
const GRACE_MS = 5000
/** Longest interval between checks for overdue jobs. */
const SWEEP_MS = 1000
/**
 * Jobs that one thread gets in a turn before the next thread. Shares a burst, but avoids waking a thread for one job.
 */
const IN_A_ROW = 8
/** A thread holds some 10 MB, and starts within 150 ms. */
const IDLE_MS = 10_000

export class WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #graceMs: number
  /** One for each job that may run; further ones wait for it. */
  readonly #slots: Slots
  /** Jobs that run or wait, and how many may. */
  #open = 0
  readonly #mostOpen: number
  readonly #piscina: Piscina
  readonly #threads: readonly WorkerThread[]
  readonly #sweep: NodeJS.Timeout
  #closing: Promise<void> | undefined
  /** The thread that gets the next jobs of this turn. */
  #current: WorkerThread | undefined
  #inARow = 0

  constructor(options: WorkerPoolOptions) {
    const { threads, graceMs = GRACE_MS, taskFile = programFile('workers/task.ts') } = options
    this.#options = options
    this.#graceMs = graceMs
    const capacity = threads * options.concurrentTasksPerThread
    this.#slots = new Slots(capacity)
    this.#mostOpen = capacity + options.maxQueue
    const piscina = startThreads({ ...options, taskFile: programFile('workers/worker-thread-task.ts') })
    this.#piscina = piscina
    this.#threads = Array.from(
      { length: threads },
      () =>
        new WorkerThread({
          serve: (start, signal) => piscina.run(start, { transferList: [start.port], signal }),
          taskFile,
          onIdleLoss: (error) => this.#reportLoss(error),
        }),
    )
    this.#sweep = setInterval(() => this.#replaceStuck(), Math.min(SWEEP_MS, graceMs)).unref()
  }

  /** @throws WorkerPoolError; the caller may always submit the job again. */
  validate(job: ValidationJob): Promise<ValidationVerdict> {
    return this.#enqueue({ job, timeoutMs: job.timeoutMs + (job.caa?.timeoutMs ?? 0), task: 'default' })
  }

  /**
   * Checks only CAA records, for names with an earlier proof of control. One finding per subject.
   * @throws WorkerPoolError
   */
  checkCaa(job: CaaJob): Promise<CaaFinding[]> {
    return this.#enqueue({ job, timeoutMs: job.timeoutMs, task: 'checkCaa' })
  }

  /** One finding per domain. @throws WorkerPoolError */
  checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]> {
    return this.#enqueue({ job, timeoutMs: job.timeoutMs, task: 'checkMailDomains' })
  }

  /**
   * Refuses new and waiting jobs, lets running ones finish for `timeoutMs`, then stops the threads. A waiting job is refused
   * when its turn comes.
   */
  close(timeoutMs: number): Promise<void> {
    this.#closing ??= this.#finish(timeoutMs)
    return this.#closing
  }

  async #enqueue<T>({ job, timeoutMs, task }: Work): Promise<T> {
    if (this.#closing) throw closed()
    if (this.#open >= this.#mostOpen)
      throw new WorkerPoolError('full', `${this.#options.maxQueue} validations are waiting already`)
    this.#open++
    try {
      const run = () => {
        if (this.#closing) throw closed()
        return this.#nextThread().run(task, job, performance.now() + timeoutMs + this.#graceMs)
      }
      return (await this.#slots.run(Number.POSITIVE_INFINITY, run)) as T
    } catch (cause) {
      if (this.#closing) throw closed(cause)
      throw new WorkerPoolError('lost', 'the validation did not come to an end', { cause })
    } finally {
      this.#open--
    }
  }

  /** The least busy thread; it stays the choice for some jobs. */
  #nextThread(): WorkerThread {
    const isFull = (thread: WorkerThread) => thread.running >= this.#options.concurrentTasksPerThread
    if (!this.#current || this.#inARow++ === IN_A_ROW || isFull(this.#current)) {
      this.#current = this.#threads.reduce((least, thread) => (thread.running < least.running ? thread : least))
      this.#inARow = 0
      setImmediate(() => {
        this.#current = undefined
      })
    }
    return this.#current
  }

  #replaceStuck(): void {
    const now = performance.now()
    for (const thread of this.#threads) {
      if (!thread.isStuck(now)) continue
      this.#options.onThreadError?.(new Error('a validation thread is stuck; it is replaced'))
      thread.replace()
    }
  }

  #reportLoss(error: Error): void {
    if (!this.#closing) this.#options.onThreadError?.(error)
  }

  async #finish(timeoutMs: number): Promise<void> {
    await this.#slots.idle(timeoutMs)
    clearInterval(this.#sweep)
    await this.#piscina.destroy()
  }
}

function closed(cause?: unknown): WorkerPoolError {
  return new WorkerPoolError('closed', 'the server is shutting down', { cause })
}

/**
 * Runs one task in each of its threads, which start with the first tasks and stop after ten seconds without one. They
 * know only the service data that a task receives.
 */
export function startThreads(
  options: Pick<WorkerPoolOptions, 'threads' | 'threadData' | 'heapLimits' | 'onThreadError'> & {
    taskFile: URL
  },
): Piscina {
  const piscina = new Piscina({
    filename: options.taskFile.href,
    minThreads: 0,
    maxThreads: options.threads,
    idleTimeout: IDLE_MS,
    workerData: options.threadData,
    // Atomics.wait would stop an idle thread's event loop, so closing sockets would stay open.
    atomics: 'disabled',
    recordTiming: false,
    // These threads read untrusted bytes, so they get none of the service's environment.
    env: coverageOnly(process.env),
    resourceLimits: options.heapLimits ?? THREAD_HEAP,
  })
  // Without a listener, a thread that dies between two tasks would end the process.
  piscina.on('error', (error: Error) => options.onThreadError?.(error))
  return piscina
}

function coverageOnly({ NODE_V8_COVERAGE }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }
}
