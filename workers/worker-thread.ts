/**
 * The supervisor's side of one validation thread: its open jobs and their messages.
 *
 * Waking a sleeping thread costs several times the copy of a job. So a thread runs one Piscina task
 * for its whole life (worker-thread-task.ts) and gets a port. Jobs of one turn of the event loop
 * form one message, and so do answers. Piscina starts the threads, and replaces dead ones.
 */

import { MessageChannel, type MessagePort } from 'node:worker_threads'

/** Input of the thread's task. */
export interface ThreadStart {
  port: MessagePort
  /** URL of the module whose exports are the tasks. */
  taskFile: string
}

export interface PostedJob {
  id: number
  /** Name of an export. */
  task: string
  job: object
}

export type PostedAnswer = { id: number; answer: unknown } | { id: number; error: unknown }

interface WorkerThreadOptions {
  /** Settles when the thread is gone; aborting stops the thread. */
  serve(start: ThreadStart, signal: AbortSignal): Promise<unknown>
  taskFile: URL
  /** Called when a thread without jobs ends, as no job can report the error. */
  onIdleLoss(error: Error): void
}

interface OpenJob {
  overdueAt: number
  resolve(answer: unknown): void
  reject(error: unknown): void
}

export class WorkerThread {
  readonly #options: WorkerThreadOptions
  readonly #open = new Map<number, OpenJob>()
  /** Jobs to send at the end of this turn. */
  #posts: PostedJob[] = []
  #lastId = 0
  /** Undefined before the first job, and between a loss and the next job. */
  #thread: { port: MessagePort; abort: AbortController } | undefined

  constructor(options: WorkerThreadOptions) {
    this.#options = options
  }

  /** Jobs without an answer yet. */
  get running(): number {
    return this.#open.size
  }

  /**
   * Rejects with the task's error, or with the reason for losing the thread.
   * @param overdueAt in the time of `performance.now()`
   */
  run(task: string, job: object, overdueAt: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId
      this.#open.set(id, { overdueAt, resolve, reject })
      if (this.#posts.push({ id, task, job }) === 1) setImmediate(() => this.#post())
    })
  }

  /** Whether an overdue job has no answer. */
  isStuck(now: number): boolean {
    for (const { overdueAt } of this.#open.values()) if (overdueAt < now) return true
    return false
  }

  /** Drops the thread and its jobs; the next job starts another thread. */
  replace(): void {
    this.#thread?.abort.abort()
  }

  #start(): MessagePort {
    const { port1, port2 } = new MessageChannel()
    const abort = new AbortController()
    this.#thread = { port: port1, abort }
    port1.on('message', (answers: PostedAnswer[]) => {
      for (const answer of answers) this.#settle(answer)
    })
    const lost = (error: Error) => {
      port1.close()
      this.#fail(error)
    }
    const { serve, taskFile } = this.#options
    serve({ port: port2, taskFile: taskFile.href }, abort.signal).then(
      () => lost(new Error('the thread gave up its port')),
      lost,
    )
    return port1
  }

  #fail(error: Error): void {
    this.#thread = undefined
    const jobs = [...this.#open.values()]
    this.#open.clear()
    if (jobs.length === 0) this.#options.onIdleLoss(error)
    for (const { reject } of jobs) reject(error)
  }

  #settle(posted: PostedAnswer): void {
    const job = this.#open.get(posted.id)
    this.#open.delete(posted.id)
    if ('answer' in posted) job?.resolve(posted.answer)
    else job?.reject(posted.error)
  }

  #post(): void {
    const jobs = this.#posts.filter(({ id }) => this.#open.has(id))
    this.#posts = []
    if (jobs.length === 0) return
    const port = this.#thread?.port ?? this.#start()
    try {
      port.postMessage(jobs)
    } catch (error) {
      // A job that cannot be cloned fails alone; the others are sent.
      if (jobs.length === 1 && jobs[0]) this.#settle({ id: jobs[0].id, error })
      else for (const job of jobs) this.#postAlone(port, job)
    }
  }

  #postAlone(port: MessagePort, job: PostedJob): void {
    try {
      port.postMessage([job])
    } catch (error) {
      this.#settle({ id: job.id, error })
    }
  }
}
