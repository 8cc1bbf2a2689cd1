/**
 * The queue of validations, in better-queue: it keeps how many run at once and starts the next when one ends.
 *
 * Which is next, it asks its store, and ours is a fair queue: accounts take turns, and neither an account nor a target gets
 * more than its share of what runs. Retries are the dispatcher's: better-queue knows one delay for all tasks, keeps an
 * entry for each task that ever failed, and would not merge a task with one that is running.
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
  const running = new Map<string, T>()

  let takes = 0

  function take(done: (error: null, lock: string) => void): void {
    const item = fair.take()
    if (item !== undefined) running.set(item.key, item)
    // No lock: nothing may be taken now.
    done(null, item?.key as string)
  }

  /** What better-queue asks a store; a task that is taken is under a lock, ours named after it. */
  const store: Queue.Store<T> = {
    connect: (done) => done(null, 0),
    // Nothing is pushed twice, so there is nothing to merge with.
    getTask: (_key, done) => done(null, undefined as unknown as T),
    putTask(_key, item, _priority, done) {
      fair.push(item)
      done(null)
    },
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
    push: (item) => void queue.push(item),
    waitingFor: fair.waitingFor,
    heads: fair.heads,
    stop: () => queue.pause(),
  }
}

function unused(method: string): never {
  throw new Error(`better-queue is not expected to call ${method} of its store`)
}
