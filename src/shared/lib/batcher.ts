/**
 * Group commit for concurrent commands of one kind.
 *
 * Commands gather until `whenFree` calls and fewer than `maxConcurrent` flushes run. There is no timer. A crash loses
 * only commands whose callers have no result yet.
 *
 * A flush is one statement or one transaction and returns one result for each command, in order. When it throws, it has
 * done nothing. Its commands are then flushed one by one, so a bad row fails alone.
 *
 * At most one command of a key is under way: a statement updates a row once. The others wait in a line of
 * `maxOfKey` commands, which does not count against `maxWaiting`.
 */

export interface BatcherOptions {
  /** Most commands of one flush. */
  maxBatch: number
  /** Most flushes at the same time, each on a database connection. */
  maxConcurrent: number
  /** With so many commands waiting, the next one is refused with `BatcherFull`. */
  maxWaiting: number
  /** Most commands of one key, including the one under way; the next is refused. */
  maxOfKey: number
  /** Commands are also refused when no flush began or ended for this long: the database is stuck. */
  maxStandstillMs: number
  /** Whether a failed flush of several commands is retried one by one; false when the connection is gone. */
  retryable(error: unknown): boolean
  /** Calls `start` when a flush may begin; by default at the end of the event-loop turn. */
  whenFree?(start: () => void): void
}

/** Too many commands wait; the caller answers 503 with Retry-After. */
export class BatcherFull extends Error {
  constructor() {
    super('too many commands are waiting for the database')
    this.name = 'BatcherFull'
  }
}

/** The caller no longer waits for the result, so the command was not begun. */
export class CommandDropped extends Error {
  constructor() {
    super('no caller waits for this command any more')
    this.name = 'CommandDropped'
  }
}

/** Properties of commands that a batcher uses. */
export interface CommandTraits<C> {
  /** The row that a command updates. A flush gets its commands in the order of their keys. */
  keyOf?: ((command: C) => string) | undefined
  /** Whether the caller no longer waits. Such a command is dropped unless it is under way. */
  isGone?: ((command: C) => boolean) | undefined
  /** Weight of a command in its flush, which weighs at most `most` or has one command alone. */
  weight?: { of(command: C): number; most: number } | undefined
}

interface Waiting<C, R> {
  command: C
  key: string | undefined
  /** The next command of the same key. It is enqueued when this one is settled. */
  next: Waiting<C, R> | undefined
  resolve(result: R): void
  reject(error: unknown): void
}

export type Flush<C, R> = (commands: readonly C[]) => Promise<readonly R[]>
export type Batched<C, R> = (command: C) => Promise<R>

export class Batcher<C, R> {
  readonly #flush: Flush<C, R>
  readonly #options: BatcherOptions & CommandTraits<C>
  #waiting: Waiting<C, R>[] = []
  #running = 0
  /** Whether `whenFree` has a `start` that it has not called yet. */
  #isAsked = false
  /** When a flush last began or ended, or the first waiting command arrived. */
  #movedAt = 0
  /** The line of each key that has a command waiting or under way. */
  readonly #lines = new Map<string, { length: number; last: Waiting<C, R> }>()

  constructor(flush: Flush<C, R>, options: BatcherOptions & CommandTraits<C>) {
    this.#flush = flush
    this.#options = options
  }

  run(command: C): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      const key = this.#options.keyOf?.(command)
      const item: Waiting<C, R> = { command, key, next: undefined, resolve, reject }
      const line = key === undefined ? undefined : this.#lines.get(key)
      if (this.#isFull(line) || this.#isStuck()) reject(new BatcherFull())
      else if (line) {
        line.last.next = item
        line.last = item
        line.length++
      } else {
        if (key !== undefined) this.#lines.set(key, { length: 1, last: item })
        this.#enqueue(item)
      }
    })
  }

  #isFull(line: { length: number } | undefined): boolean {
    return line ? line.length >= this.#options.maxOfKey : this.#waiting.length >= this.#options.maxWaiting
  }

  #isStuck(): boolean {
    return this.#waiting.length > 0 && performance.now() - this.#movedAt > this.#options.maxStandstillMs
  }

  #enqueue(item: Waiting<C, R>): void {
    if (this.#waiting.push(item) === 1) this.#movedAt = performance.now()
    this.#ask()
  }

  /** One call of `start` is asked for at a time, and it starts one flush. */
  #ask(): void {
    if (this.#isAsked || this.#waiting.length === 0 || this.#running >= this.#options.maxConcurrent) return
    this.#isAsked = true
    const { whenFree = setImmediate } = this.#options
    whenFree(() => this.#start())
  }

  #start(): void {
    this.#isAsked = false
    if (this.#options.isGone) this.#dropGone(this.#options.isGone)
    if (this.#waiting.length === 0) return
    const size = this.#nextSize()
    const batch = this.#waiting.length <= size ? this.#waiting : this.#waiting.slice(0, size)
    this.#waiting = this.#waiting.length <= size ? [] : this.#waiting.slice(size)
    this.#running++
    this.#movedAt = performance.now()
    void this.#execute(batch).finally(() => {
      this.#running--
      this.#movedAt = performance.now()
      this.#ask()
    })
    this.#ask()
  }

  #nextSize(): number {
    const { weight, maxBatch } = this.#options
    if (!weight) return maxBatch
    let size = 0
    let total = 0
    for (const { command } of this.#waiting) {
      total += weight.of(command)
      if (size === maxBatch || (size > 0 && total > weight.most)) break
      size++
    }
    return size
  }

  #dropGone(isGone: (command: C) => boolean): void {
    const candidates = this.#waiting
    this.#waiting = []
    for (const candidate of candidates) {
      let item: Waiting<C, R> | undefined = candidate
      while (item && isGone(item.command)) {
        item.reject(new CommandDropped())
        item = this.#leave(item)
      }
      if (item) this.#waiting.push(item)
    }
  }

  async #execute(batch: readonly Waiting<C, R>[]): Promise<void> {
    try {
      await this.#settle(batch)
    } catch (error) {
      if (batch.length > 1 && this.#options.retryable(error)) await this.#executeOneByOne(batch)
      else for (const item of batch) this.#fail(item, error)
    }
  }

  /** Ends at the first error that is not retryable: each further command would cost a time-out. */
  async #executeOneByOne(batch: readonly Waiting<C, R>[]): Promise<void> {
    for (const [i, item] of batch.entries()) {
      try {
        await this.#settle([item])
      } catch (error) {
        if (!this.#options.retryable(error)) {
          for (const other of batch.slice(i)) this.#fail(other, error)
          return
        }
        this.#fail(item, error)
      }
    }
  }

  async #settle(batch: readonly Waiting<C, R>[]): Promise<void> {
    // In key order: two batches then lock shared rows in the same order.
    const sorted = this.#options.keyOf && batch.length > 1 ? batch.toSorted(byKey) : batch
    const results = await this.#flush(sorted.map((item) => item.command))
    if (results.length !== batch.length) throw new Error('a flush must return one result for each command')
    for (const [i, item] of sorted.entries()) {
      item.resolve(results[i] as R)
      this.#advance(item)
    }
  }

  #fail(first: Waiting<C, R>, error: unknown): void {
    first.reject(error)
    if (this.#options.retryable(error)) {
      this.#advance(first)
      return
    }
    // The database is unreachable: later commands would fail the same way, each after a time-out.
    for (let item = this.#leave(first); item; item = this.#leave(item)) item.reject(error)
  }

  #advance(item: Waiting<C, R>): void {
    const next = this.#leave(item)
    if (next) this.#enqueue(next)
  }

  /** @returns the next command of the key, now first in its line */
  #leave({ key, next }: Waiting<C, R>): Waiting<C, R> | undefined {
    const line = key === undefined ? undefined : this.#lines.get(key)
    if (line && --line.length === 0) this.#lines.delete(key as string)
    return next
  }
}

const byKey = (a: { key: string | undefined }, b: typeof a) => ((a.key as string) < (b.key as string) ? -1 : 1)
