/**
 * The threads that validate, seen from the supervisor: bounded, and never waiting for ever.
 *
 * Jobs wait here, not in Piscina, so that the bound is exact and a job's clock starts when it is handed to a thread.
 * A task bounds itself (`job.timeoutMs`); should a thread be stuck all the same, the pool notices after a grace and is
 * replaced as a whole, because Piscina can stop a single task only by an abort signal, which would cost its thread all
 * concurrency. What was running on a lost thread is reported as `lost`: nothing is known about the target then.
 */

import { Piscina } from 'piscina'
import type { CaaFinding, CaaJob, MailDomainFinding, MailDomainJob, ValidationJob, ValidationVerdict } from './job.ts'
import { placesOf, withoutShared } from './shared-settings.ts'

export interface WorkerPoolOptions {
  threads: number
  concurrentTasksPerThread: number
  /** Jobs that may wait while all threads are full. */
  maxQueue: number
  /** Settings that stand in many jobs, as the very same objects. */
  shared?: readonly object[]
  /** Called with what stopped a thread, for the log. */
  onThreadError?: (error: Error) => void
  /** Compiled module whose default export is the task. */
  taskFile?: URL
  /** Worker data of the threads, in place of what is shared. */
  threadData?: object
  heapLimits?: { maxOldGenerationSizeMb: number; maxYoungGenerationSizeMb: number }
  /** How long past its own deadline a task may stay silent before its thread counts as stuck. */
  graceMs?: number
}

export interface WorkerPoolStats {
  threads: number
  running: number
  queued: number
  /** Verdicts given, good and bad. */
  completed: number
  /** Jobs without a verdict: thread crashed or stuck, or a fault in a task. */
  lost: number
  /** Jobs refused because the queue was full. */
  refused: number
}

export interface WorkerPool {
  /** @throws WorkerPoolError; the job may be given again later, whatever the reason. */
  validate(job: ValidationJob): Promise<ValidationVerdict>
  /** CAA records alone, for names whose control was shown before; one finding a subject. @throws WorkerPoolError */
  checkCaa(job: CaaJob): Promise<CaaFinding[]>
  /** One finding a domain. @throws WorkerPoolError */
  checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]>
  stats(): WorkerPoolStats
  /** Refuses new and waiting jobs, lets running ones finish for `timeoutMs`, then stops the threads. */
  close(timeoutMs: number): Promise<void>
}

export type WorkerPoolErrorCode = 'full' | 'lost' | 'closed'

/** No verdict. Says nothing about the target, so it is no ACME problem: retry, or drop at shutdown (`closed`). */
export class WorkerPoolError extends Error {
  readonly code: WorkerPoolErrorCode
  readonly retryable = true

  constructor(code: WorkerPoolErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'WorkerPoolError'
    this.code = code
  }
}

/** Covers the start of a thread (150 ms) and a burst on a busy machine. */
const GRACE_MS = 5000

export function createWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { threads, concurrentTasksPerThread, maxQueue, graceMs = GRACE_MS } = options
  const capacity = threads * concurrentTasksPerThread
  const counts = { running: 0, completed: 0, lost: 0, refused: 0 }
  const places = placesOf(options.shared ?? [])
  let waiting: Waiter[] = []
  let piscina = startThreads(options)
  let closing: Promise<void> | undefined
  let onIdle: (() => void) | undefined

  function replaceThreads(stuck: Piscina): void {
    // Several stuck tasks of one pool are one reason.
    if (stuck !== piscina || closing) return
    options.onThreadError?.(new Error('a validation thread is stuck; all threads are replaced'))
    piscina = startThreads(options)
    void stuck.destroy()
  }

  function release(): void {
    counts.running--
    waiting.shift()?.start()
    if (counts.running === 0) onIdle?.()
  }

  async function run<T>({ job, timeoutMs, task }: Work): Promise<T> {
    counts.running++
    const current = piscina
    const overdue = setTimeout(() => replaceThreads(current), timeoutMs + graceMs)
    try {
      const verdict: T = await current.run(withoutShared(job, places), { name: task })
      counts.completed++
      return verdict
    } catch (cause) {
      counts.lost++
      if (closing) throw new WorkerPoolError('closed', 'the server is shutting down', { cause })
      throw new WorkerPoolError('lost', 'the validation did not come to an end', { cause })
    } finally {
      clearTimeout(overdue)
      release()
    }
  }

  async function enqueue<T>(work: Work): Promise<T> {
    if (closing) throw new WorkerPoolError('closed', 'the server is shutting down')
    if (counts.running < capacity) return run(work)
    if (waiting.length >= maxQueue) {
      counts.refused++
      throw new WorkerPoolError('full', `${maxQueue} validations are waiting already`)
    }
    return new Promise((resolve, refuse) => {
      waiting.push({ start: () => resolve(run<T>(work)), refuse })
    })
  }

  async function finish(timeoutMs: number): Promise<void> {
    const refused = waiting
    waiting = []
    for (const waiter of refused) waiter.refuse(new WorkerPoolError('closed', 'the server is shutting down'))
    if (counts.running > 0) await idleOrTimeout(timeoutMs)
    await piscina.destroy()
  }

  function idleOrTimeout(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  return {
    validate: (job) =>
      enqueue<ValidationVerdict>({ job, timeoutMs: job.timeoutMs + (job.caa?.timeoutMs ?? 0), task: 'default' }),
    checkCaa: (job) => enqueue<CaaFinding[]>({ job, timeoutMs: job.timeoutMs, task: 'checkCaa' }),
    checkMailDomains: (job) =>
      enqueue<MailDomainFinding[]>({ job, timeoutMs: job.timeoutMs, task: 'checkMailDomains' }),
    stats: () => ({ threads: piscina.threads.length, queued: waiting.length, ...counts }),
    close(timeoutMs) {
      closing ??= finish(timeoutMs)
      return closing
    },
  }
}

interface Work {
  job: ValidationJob | CaaJob | MailDomainJob
  /** Within which the task ends by itself. */
  timeoutMs: number
  /** Export of the task file. */
  task: 'default' | 'checkCaa' | 'checkMailDomains'
}

interface Waiter {
  start(): void
  refuse(error: WorkerPoolError): void
}

/** Threads that run one task module, and know nothing of the service but what a task is given. */
export function startThreads(
  options: Pick<
    WorkerPoolOptions,
    'threads' | 'concurrentTasksPerThread' | 'taskFile' | 'shared' | 'threadData' | 'heapLimits' | 'onThreadError'
  >,
): Piscina {
  const { taskFile = new URL('./task.js', import.meta.url) } = options
  const piscina = new Piscina({
    filename: taskFile.href,
    minThreads: options.threads,
    maxThreads: options.threads,
    concurrentTasksPerWorker: options.concurrentTasksPerThread,
    workerData: options.threadData ?? options.shared ?? [],
    // Otherwise an idle thread sleeps in Atomics.wait with its event loop stopped, and what is still closing stays open.
    atomics: 'disabled',
    // The zone that strangers' bytes come into sees none of the service's environment.
    env: coverageOnly(process.env),
    ...(options.heapLimits && { resourceLimits: options.heapLimits }),
  })
  // Without a listener a thread that dies between two tasks would end the process.
  piscina.on('error', (error: Error) => options.onThreadError?.(error))
  return piscina
}

function coverageOnly({ NODE_V8_COVERAGE }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }
}
