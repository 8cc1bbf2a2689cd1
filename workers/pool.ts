/**
 * The threads that validate, seen from the supervisor: bounded, and never waiting for ever.
 *
 * Jobs wait here, so that the bound is exact and a job's clock starts when it is handed to a thread (lane.ts). A task
 * bounds itself (`job.timeoutMs`); should a thread be stuck all the same, the pool notices after a grace and has it
 * replaced. What was running on a lost thread is reported as `lost`: nothing is known about the target then.
 */

import { Piscina } from 'piscina'
import type { CaaFinding, CaaJob, MailDomainFinding, MailDomainJob, ValidationJob, ValidationVerdict } from './job.ts'
import { createLane, type Lane, type ServeLane } from './lane.ts'
import { WorkerPoolError } from './pool-error.ts'
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
  /** Compiled module whose exports are the tasks. */
  taskFile?: URL
  /** Worker data of the threads, in place of what is shared. */
  threadData?: object
  heapLimits?: { maxOldGenerationSizeMb: number; maxYoungGenerationSizeMb: number }
  /** How long past its own deadline a task may stay silent before its thread counts as stuck. */
  graceMs?: number
}

export interface WorkerPool {
  /** @throws WorkerPoolError; the job may be given again later, whatever the reason. */
  validate(job: ValidationJob): Promise<ValidationVerdict>
  /** CAA records alone, for names whose control was shown before; one finding a subject. @throws WorkerPoolError */
  checkCaa(job: CaaJob): Promise<CaaFinding[]>
  /** One finding a domain. @throws WorkerPoolError */
  checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]>
  /** Refuses new and waiting jobs, lets running ones finish for `timeoutMs`, then stops the threads. */
  close(timeoutMs: number): Promise<void>
}

/** Covers the start of a thread (150 ms) and a burst on a busy machine. */
const GRACE_MS = 5000
/** How often overdue jobs are looked for, at least. */
const SWEEP_MS = 1000
/** Jobs of one turn that go to one thread before another is chosen: few enough to share a burst, and no thread is woken for one. */
const IN_A_ROW = 8

export function createWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { threads, concurrentTasksPerThread, maxQueue, graceMs = GRACE_MS } = options
  const { taskFile = new URL('./task.js', import.meta.url) } = options
  const capacity = threads * concurrentTasksPerThread
  const places = placesOf(options.shared ?? [])
  const piscina = startThreads({ ...options, taskFile: new URL('./lane-task.js', import.meta.url) })
  const serve: ServeLane = (start, signal) => piscina.run(start, { transferList: [start.port], signal })
  const lanes = Array.from({ length: threads }, () => createLane(serve, taskFile, reportLoss))
  const sweep = setInterval(replaceStuck, Math.min(SWEEP_MS, graceMs)).unref()
  let running = 0
  let waiting: Waiter[] = []
  let closing: Promise<void> | undefined
  let onIdle: (() => void) | undefined

  function reportLoss(error: Error): void {
    if (!closing) options.onThreadError?.(error)
  }

  function replaceStuck(): void {
    const now = performance.now()
    for (const lane of lanes) {
      if (!lane.isStuck(now)) continue
      options.onThreadError?.(new Error('a validation thread is stuck; it is replaced'))
      lane.replace()
    }
  }

  let current: Lane | undefined
  let inARow = 0
  /** The least busy thread, for some jobs at a time. */
  function nextLane(): Lane {
    if (!current || inARow++ === IN_A_ROW || current.running >= concurrentTasksPerThread) {
      current = lanes.reduce((least, lane) => (lane.running < least.running ? lane : least))
      inARow = 0
      setImmediate(() => {
        current = undefined
      })
    }
    return current
  }

  function release(): void {
    running--
    waiting.shift()?.start()
    if (running === 0) onIdle?.()
  }

  async function run<T>({ job, timeoutMs, task }: Work): Promise<T> {
    running++
    try {
      const overdueAt = performance.now() + timeoutMs + graceMs
      return (await nextLane().run(task, withoutShared(job, places), overdueAt)) as T
    } catch (cause) {
      if (closing) throw new WorkerPoolError('closed', 'the server is shutting down', { cause })
      throw new WorkerPoolError('lost', 'the validation did not come to an end', { cause })
    } finally {
      release()
    }
  }

  async function enqueue<T>(work: Work): Promise<T> {
    if (closing) throw new WorkerPoolError('closed', 'the server is shutting down')
    if (running < capacity) return run(work)
    if (waiting.length >= maxQueue) throw new WorkerPoolError('full', `${maxQueue} validations are waiting already`)
    return new Promise((resolve, refuse) => {
      waiting.push({ start: () => resolve(run<T>(work)), refuse })
    })
  }

  async function finish(timeoutMs: number): Promise<void> {
    const refused = waiting
    waiting = []
    for (const waiter of refused) waiter.refuse(new WorkerPoolError('closed', 'the server is shutting down'))
    if (running > 0) await idleOrTimeout(timeoutMs)
    clearInterval(sweep)
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

/** Threads that run one task each, and know nothing of the service but what a task is given. */
export function startThreads(
  options: Pick<WorkerPoolOptions, 'threads' | 'shared' | 'threadData' | 'heapLimits' | 'onThreadError'> & {
    taskFile: URL
  },
): Piscina {
  const piscina = new Piscina({
    filename: options.taskFile.href,
    minThreads: options.threads,
    maxThreads: options.threads,
    workerData: options.threadData ?? options.shared ?? [],
    // Otherwise an idle thread sleeps in Atomics.wait with its event loop stopped, and what is still closing stays open.
    atomics: 'disabled',
    recordTiming: false,
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
