/**
 * The queue of validations: what may run does so at once, and what has to wait waits in better-queue, which starts it when
 * there is room.
 *
 * Which is next, better-queue asks its store, and ours is a fair queue: accounts take turns, and neither an account nor a
 * target gets more than its share of what runs. While nothing waits nobody has to be asked: a task of better-queue takes a
 * timer and four rounds of the event loop before it starts, a millisecond and more CPU than all else that the supervisor
 * does for a validation. Retries are the dispatcher's: better-queue knows one delay for all tasks, keeps an entry for each
 * task that ever failed, and would not merge a task with one that is running.
 */

import Queue from 'better-queue'
import { createFairQueue, type FairQueueOptions, type WaitReason } from '../lib/fair-queue.ts'

/** better-queue starts the next task from within the start of one, ten calls deeper each time: thousands would not fit the stack. */
const TAKES_IN_A_ROW = 64

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
  /** Started by better-queue. */
  const running = new Map<string, T>()
  let isStopped = false
  let takes = 0

  const mayTake = () => fair.out < options.concurrency

  function push(item: T): void {
    const isFirst = fair.waiting === 0
    fair.push(item)
    const free = isFirst && mayTake() && !isStopped ? fair.take() : undefined
    if (free === undefined) queue.push(item)
    else void runNow(free)
  }

  async function runNow(item: T): Promise<void> {
    await options.run(item)
    fair.giveBack(item)
    // It is told of the ends of its own tasks only.
    if (fair.waiting > 0 && !isStopped) queue.resume()
  }

  function take(done: (error: null, lock: string) => void): void {
    const item = mayTake() ? fair.take() : undefined
    if (item !== undefined) running.set(item.key, item)
    // No lock: nothing may be taken now.
    done(null, item?.key as string)
  }

  /** What better-queue asks a store; a task that is taken is under a lock, ours named after it. */
  const store: Queue.Store<T> = {
    connect: (done) => done(null, 0),
    // Nothing is pushed twice, so there is nothing to merge with.
    getTask: (_key, done) => done(null, undefined as unknown as T),
    // In the fair queue already.
    putTask: (_key, _item, _priority, done) => done(null),
    takeFirstN(_count, done) {
      if (++takes % TAKES_IN_A_ROW === 0) setImmediate(take, done)
      else take(done)
    },
    getLock(key, done) {
      // Without a prototype: an object literal with a new name each time leaves V8 a hidden class for each.
      const batch = Object.create(null) as { [key: string]: T }
      batch[key] = running.get(key) as T
      done(null, batch)
    },
    releaseLock(key, done) {
      fair.giveBack(running.get(key) as T)
      running.delete(key)
      done(null)
    },
    takeLastN: () => unused('takeLastN'),
    deleteTask: () => unused('deleteTask'),
  }
  // Asked once at the start, for what a former process left; missing in the types.
  const getRunningTasks = (done: (error: null, tasks: object) => void) => done(null, {})

  const queue = new Queue<T, void>((item: T, done: () => void) => void options.run(item).then(done), {
    concurrent: options.concurrency,
    id: 'key',
    store: { ...store, getRunningTasks } as Queue.Store<T>,
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
