/**
 * The jobs of one thread, seen from the supervisor: posted by the turn of the event loop, answered one by one.
 *
 * To hand a job to a thread that sleeps is to wake it, and that costs several times what the copy of the job does; the same
 * again for the answer. So a lane is one Piscina task that lasts as long as its thread (lane-task.ts) and is given a
 * port: the jobs of one turn go as one message, and what the thread has found by the end of a turn comes back as one. No
 * job waits for another. Piscina starts the threads, notices when one dies, and puts another in its place.
 */

import { MessageChannel, type MessagePort } from 'node:worker_threads'

/** What a lane's task is started with. */
export interface LaneStart {
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

export interface Lane {
  /** Jobs without an answer yet. */
  readonly running: number
  /** Rejects with what the task threw, or with the reason why its thread was lost. @param overdueAt `performance.now()` */
  run(task: string, job: object, overdueAt: number): Promise<unknown>
  /** Whether a job has no answer although it is overdue. */
  isStuck(now: number): boolean
  /** Gives up the thread and its jobs; the next job starts another. */
  replace(): void
}

interface OpenJob {
  overdueAt: number
  resolve(answer: unknown): void
  reject(error: unknown): void
}

interface Thread {
  port: MessagePort
  abort: AbortController
}

/** Resolves or rejects when the thread is gone; aborting has it stopped. */
export type ServeLane = (start: LaneStart, signal: AbortSignal) => Promise<unknown>

/** @param onIdleLoss called with what ended a thread that had no job, which nobody else hears of */
export function createLane(serve: ServeLane, taskFile: URL, onIdleLoss: (error: Error) => void): Lane {
  const open = new Map<number, OpenJob>()
  let posts: PostedJob[] = []
  let lastId = 0
  let thread: Thread | undefined

  function startThread(): Thread {
    const { port1, port2 } = new MessageChannel()
    const current: Thread = { port: port1, abort: new AbortController() }
    thread = current
    port1.on('message', (answers: PostedAnswer[]) => {
      for (const answer of answers) settle(answer)
    })
    const start: LaneStart = { port: port2, taskFile: taskFile.href }
    const lost = (error: Error) => {
      thread = undefined
      port1.close()
      const jobs = [...open.values()]
      open.clear()
      if (jobs.length === 0) onIdleLoss(error)
      for (const { reject } of jobs) reject(error)
    }
    serve(start, current.abort.signal).then(() => lost(new Error('the thread gave up its port')), lost)
    return current
  }

  function settle(posted: PostedAnswer): void {
    const job = open.get(posted.id)
    open.delete(posted.id)
    if ('answer' in posted) job?.resolve(posted.answer)
    else job?.reject(posted.error)
  }

  function post(): void {
    const jobs = posts.filter(({ id }) => open.has(id))
    posts = []
    if (jobs.length === 0) return
    const { port } = thread ?? startThread()
    try {
      port.postMessage(jobs)
    } catch (error) {
      // One that cannot be cloned: a fault of its maker, and no reason for the others to wait.
      if (jobs.length === 1 && jobs[0]) settle({ id: jobs[0].id, error })
      else for (const job of jobs) postAlone(port, job)
    }
  }

  function postAlone(port: MessagePort, job: PostedJob): void {
    try {
      port.postMessage([job])
    } catch (error) {
      settle({ id: job.id, error })
    }
  }

  // At once, so that the first job does not wait for it; after a loss the next job starts another.
  startThread()

  return {
    get running() {
      return open.size
    },
    run(task, job, overdueAt) {
      return new Promise((resolve, reject) => {
        const id = ++lastId
        open.set(id, { overdueAt, resolve, reject })
        if (posts.push({ id, task, job }) === 1) setImmediate(post)
      })
    },
    isStuck(now) {
      for (const { overdueAt } of open.values()) if (overdueAt < now) return true
      return false
    },
    replace() {
      thread?.abort.abort()
    },
  }
}
