/**
 * The queue of validations: what may run does so at once, and what has to wait waits in better-queue, which starts it when
 * there is room.
 *
 * Which is next, better-queue asks its store, and ours is a fair queue: accounts take turns, and neither an account nor a
 * target gets more than its share of what runs. While nothing waits that could run nobody has to be asked: a task of
 * better-queue takes a timer and four rounds of the event loop before it is in the store, a millisecond and more CPU than
 * all else that the supervisor does for a validation. Retries are the dispatcher's: better-queue knows one delay for all
 * tasks, keeps an entry for each task that ever failed, and would not merge a task with one that is running.
 *
 * An item enters the fair queue at once, so that turns are kept and counted from the start, and may have its turn before
 * better-queue has put it into the store. Then it runs without better-queue, and the put is refused: better-queue forgets
 * only what it took itself. Whether there is something to start it asks first (`precondition`), and has its answer when
 * there is; that costs the same however much runs, while its `resume` compares all that runs with all that runs.
 */

import Queue from 'better-queue'
import { createFairQueue, type FairQueueOptions, type WaitReason } from '../shared/lib/fair-queue.ts'

/** better-queue starts the next task from within the start of one, ten calls deeper each time: thousands would not fit the stack. */
const STARTS_IN_A_ROW = 64

export interface Keyed {
  /** Unique among what waits and runs. */
  key: string
}

export interface ValidationQueueOptions<T extends Keyed> extends FairQueueOptions<T> {
  concurrency: number
  /** Resolves when the item has ended, and never rejects. */
  run(item: T): Promise<void>
}

export interface ValidationQueue<T> {
  push(item: T): void
  waitingFor(): Record<WaitReason, number>
  heads(): Iterable<T>
  /** Starts nothing more. */
  stop(): void
}

export function createValidationQueue<T extends Keyed>(options: ValidationQueueOptions<T>): ValidationQueue<T> {
  const fair = createFairQueue<T>(options)
  /** Keys of what waits and better-queue has not put into its store yet. */
  const unannounced = new Set<string>()
  /** How many wait that it has put there. */
  let announced = 0
  /** Its question whether there is something to start, while there is nothing. */
  let question: (() => void) | undefined
  /** What it starts next: it takes a lock and looks what is under it within the answer to its question. */
  let granted: T | undefined
  let isStopped = false
  let questions = 0

  function push(item: T): void {
    fair.push(item)
    unannounced.add(item.key)
    startWhatMay()
    if (unannounced.has(item.key)) queue.push(item)
  }

  async function run(item: T): Promise<void> {
    await options.run(item)
    fair.giveBack(item)
    startWhatMay()
  }

  function startWhatMay(): void {
    // Then it is about to ask: whenever something enters its store, and after each start.
    if (announced > 0 && question === undefined) return
    const grant = question
    question = undefined
    const item = nextAnnounced()
    if (item === undefined) {
      question ??= grant
    } else {
      granted = item
      grant?.()
    }
  }

  /** The next that better-queue can start; what has its turn before that and is not known there is started here. */
  function nextAnnounced(): T | undefined {
    while (!isStopped && fair.out < options.concurrency) {
      const item = fair.take()
      if (item === undefined) return undefined
      if (!unannounced.delete(item.key)) {
        announced--
        return item
      }
      void run(item)
    }
    return undefined
  }

  function asked(grant: () => void): void {
    question = grant
    startWhatMay()
  }

  /** What better-queue asks a store; a task that is taken is under a lock, ours named after it. */
  const store: Queue.Store<T> = {
    connect: (done) => done(null, 0),
    // Nothing is pushed twice, so there is nothing to merge with.
    getTask: (_key, done) => done(null, undefined as unknown as T),
    putTask(key, _item, _priority, done) {
      const isWaiting = unannounced.delete(key)
      if (isWaiting) announced++
      // Refused, it leaves nothing behind in better-queue; put after its start, it would stay there for good.
      done(isWaiting ? null : new Error('started before it was put'))
    },
    takeFirstN: (_count, done) => done(null, (granted as T).key),
    getLock(key, done) {
      // Without a prototype: an object literal with a new name each time leaves V8 a hidden class for each.
      const batch = Object.create(null) as { [key: string]: T }
      batch[key] = granted as T
      granted = undefined
      done(null, batch)
    },
    releaseLock: (_key, done) => done(null),
    takeLastN: () => unused('takeLastN'),
    deleteTask: () => unused('deleteTask'),
  }
  // Asked once at the start, for what a former process left; missing in the types.
  const getRunningTasks = (done: (error: null, tasks: object) => void) => done(null, {})

  const queue = new Queue<T, void>((item: T, done: () => void) => void run(item).then(done), {
    // The bound is in the answer below, which counts what has not waited as well. Under one of its own better-queue would
    // leave the last place without a question.
    concurrent: Number.POSITIVE_INFINITY,
    id: 'key',
    store: { ...store, getRunningTasks } as Queue.Store<T>,
    precondition(answer) {
      const grant = () => answer(null, true)
      if (++questions % STARTS_IN_A_ROW === 0) setImmediate(asked, grant)
      else asked(grant)
    },
  })

  return {
    push,
    waitingFor: fair.waitingFor,
    heads: fair.heads,
    stop() {
      isStopped = true
      queue.pause()
    },
  }
}

function unused(method: string): never {
  throw new Error(`better-queue is not expected to call ${method} of its store`)
}
