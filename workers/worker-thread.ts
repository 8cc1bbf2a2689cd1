/**
 * One validation thread, seen from the supervisor: its open jobs, and the messages that carry them.
 *
 * Waking a sleeping thread costs several times what copying a job does. So a thread runs one
 * Piscina task for its life (worker-thread-task.ts) and gets a port: the jobs of one turn of
 * the event loop go as one message, and so do answers. Piscina starts the threads, notices
 * when one dies, and replaces it.
 */

import { MessageChannel, type MessagePort } from 'node:worker_threads'

/** What the thread's task is started with. */
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

export interface WorkerThreadOptions {
  /** Resolves or rejects when the thread is gone; aborting stops the thread. */
  serve(start: ThreadStart, signal: AbortSignal): Promise<unknown>
  taskFile: URL
  /** Called with what ended a thread without jobs: no job can report it. */
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
  /** Jobs that go at the end of this turn. */
  #posts: PostedJob[] = []
  #lastId = 0
  /** Undefined between a loss and the next job. */
  #thread: { port: MessagePort; abort: AbortController } | undefined

  /** Starts the thread at once, so that the first job does not wait for it. */
  constructor(options: WorkerThreadOptions) {
    this.#options = options
    this.#start()
  }

  /** Jobs without an answer yet. */
  get running(): number {
    return this.#open.size
  }

  /**
   * Rejects with what the task threw, or with the reason why the thread was lost.
   * @param overdueAt `performance.now()`
   */
  run(task: string, job: object, overdueAt: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId
      this.#open.set(id, { overdueAt, resolve, reject })
      if (this.#posts.push({ id, task, job }) === 1) setImmediate(() => this.#post())
    })
  }

  /** Whether a job has no answer although it is overdue. */
  isStuck(now: number): boolean {
    for (const { overdueAt } of this.#open.values()) if (overdueAt < now) return true
    return false
  }

  /** Gives up the thread and its jobs; the next job starts another. */
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
      // A job that cannot be cloned fails alone; the others of its message still go.
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
