/**
 * Group commit for concurrent commands of one kind.
 *
 * Commands gather until `whenFree` calls, and while `maxConcurrent` flushes run; then they go together: no timer, so no
 * added latency at low load, and batches that grow with the load by themselves. What a crash loses is what no caller has
 * been told of yet.
 *
 * A flush returns one result for each command, in order: business outcomes are values. A flush that throws has done
 * nothing, so it is one statement or one transaction. It is retried command by command, so that one poisonous row fails
 * its own caller and not its neighbours; where the database goes away meanwhile, the rest fails at once.
 *
 * Where commands have keys, at most one of a key is under way: a statement updates a row once, whatever it joins the row
 * with. The others line up behind it, in the order they came, and take up nobody else's room meanwhile. A line is short:
 * whoever repeats one command faster than it can be done is refused, and nobody else.
 */

export interface BatcherOptions {
  /** Upper bound of one flush; what is over it goes with the next. */
  maxBatch: number
  /** Flushes in flight at once; as many database connections can be busy with this kind. */
  maxConcurrent: number
  /** Commands waiting beyond which new ones are refused with `BatcherFull`; those in line behind their key are not among them. */
  maxWaiting: number
  /** The same for the commands of one key, the one under way included. */
  maxOfKey: number
  /** So are they when what waits has not moved for so long: the database is stuck, and one more would only wait as well. */
  maxStandstillMs: number
  /** Whether a thrown flush of several is worth retrying one by one; false when the connection itself is gone. */
  retryable(error: unknown): boolean
  /**
   * Calls `start` when there is room for a flush; by default at the end of the event-loop turn, so that requests read from
   * the sockets together travel together.
   */
  whenFree?(start: () => void): void
}

/** Too much waits already; the caller answers 503 with Retry-After. */
export class BatcherFull extends Error {
  constructor() {
    super('too many commands are waiting for the database')
    this.name = 'BatcherFull'
  }
}

/** Nobody waits for the result any more, so the command was not begun. */
export class CommandDropped extends Error {
  constructor() {
    super('nobody waits for this command any more')
    this.name = 'CommandDropped'
  }
}

/** What a batcher has to know of its commands, each where it applies. */
export interface CommandTraits<C> {
  /** The row that a command updates; a flush gets its commands in the order of their keys. */
  keyOf?: ((command: C) => string) | undefined
  /** A command that nobody waits for is dropped, unless it is under way. */
  isGone?: ((command: C) => boolean) | undefined
  /** What a command adds to its flush, which has `most` of it at most, or one command alone. */
  weight?: { of(command: C): number; most: number } | undefined
}

interface Waiting<C, R> {
  command: C
  key: string | undefined
  /** The next command of its key, which starts to wait when this one is settled. */
  next: Waiting<C, R> | undefined
  resolve(result: R): void
  reject(error: unknown): void
}

export type Flush<C, R> = (commands: readonly C[]) => Promise<readonly R[]>
export type Batched<C, R> = (command: C) => Promise<R>

const byKey = (a: { key: string | undefined }, b: typeof a) => ((a.key as string) < (b.key as string) ? -1 : 1)

export function createBatcher<C, R>(
  flush: Flush<C, R>,
  options: BatcherOptions,
  { keyOf, isGone, weight }: CommandTraits<C> = {},
): Batched<C, R> {
  const { whenFree = setImmediate } = options
  let waiting: Waiting<C, R>[] = []
  let running = 0
  /** When something was taken from what waits or came back, or the first of what waits came. */
  let movedAt = 0
  /** Of each key of which a command waits or is under way: how many there are, and the last of them. */
  const lines = new Map<string, { length: number; last: Waiting<C, R> }>()

  async function run(batch: readonly Waiting<C, R>[]): Promise<void> {
    try {
      await settle(batch)
    } catch (error) {
      if (batch.length > 1 && options.retryable(error)) await runOneByOne(batch)
      else for (const item of batch) fail(item, error)
    }
  }

  /** Up to the first that meets what a retry does not mend: the others would, too, each after a time-out of its own. */
  async function runOneByOne(batch: readonly Waiting<C, R>[]): Promise<void> {
    for (const [i, item] of batch.entries()) {
      try {
        await settle([item])
      } catch (error) {
        if (!options.retryable(error)) {
          for (const other of batch.slice(i)) fail(other, error)
          return
        }
        fail(item, error)
      }
    }
  }

  async function settle(batch: readonly Waiting<C, R>[]): Promise<void> {
    // Two batches lock the rows they share in one order.
    const sorted = keyOf && batch.length > 1 ? batch.toSorted(byKey) : batch
    const results = await flush(sorted.map((item) => item.command))
    if (results.length !== batch.length) throw new Error('a flush must return one result for each command')
    for (const [i, item] of sorted.entries()) {
      item.resolve(results[i] as R)
      advance(item)
    }
  }

  /** @returns the next of its key, which is at the head of the line now. */
  function leave({ key, next }: Waiting<C, R>): Waiting<C, R> | undefined {
    const line = key === undefined ? undefined : lines.get(key)
    if (line && --line.length === 0) lines.delete(key as string)
    return next
  }

  function advance(item: Waiting<C, R>): void {
    const next = leave(item)
    if (next) enqueue(next)
  }

  function fail(first: Waiting<C, R>, error: unknown): void {
    first.reject(error)
    if (options.retryable(error)) {
      advance(first)
      return
    }
    // The database is away, or stuck at this row: those behind would meet the same, each after a time-out of its own.
    for (let item = leave(first); item; item = leave(item)) item.reject(error)
  }

  function dropGone(): void {
    const candidates = waiting
    waiting = []
    for (const candidate of candidates) {
      let item: Waiting<C, R> | undefined = candidate
      while (item && isGone?.(item.command)) {
        item.reject(new CommandDropped())
        item = leave(item)
      }
      if (item) waiting.push(item)
    }
  }

  function enqueue(item: Waiting<C, R>): void {
    if (waiting.push(item) === 1) movedAt = performance.now()
    ask()
  }

  /** One call of `start` is asked for at a time, and it starts one flush. */
  let asked = false
  function ask(): void {
    if (asked || waiting.length === 0 || running >= options.maxConcurrent) return
    asked = true
    whenFree(start)
  }

  function nextSize(): number {
    if (!weight) return options.maxBatch
    let size = 0
    let total = 0
    for (const { command } of waiting) {
      total += weight.of(command)
      if (size === options.maxBatch || (size > 0 && total > weight.most)) break
      size++
    }
    return size
  }

  function start(): void {
    asked = false
    if (isGone) dropGone()
    if (waiting.length === 0) return
    const size = nextSize()
    const batch = waiting.length <= size ? waiting : waiting.slice(0, size)
    waiting = waiting.length <= size ? [] : waiting.slice(size)
    running++
    movedAt = performance.now()
    void run(batch).finally(() => {
      running--
      movedAt = performance.now()
      ask()
    })
    ask()
  }

  const isStuck = () => waiting.length > 0 && performance.now() - movedAt > options.maxStandstillMs

  return (command) =>
    new Promise<R>((resolve, reject) => {
      const key = keyOf?.(command)
      const line = key === undefined ? undefined : lines.get(key)
      const isFull = line ? line.length >= options.maxOfKey : waiting.length >= options.maxWaiting
      if (isFull || isStuck()) {
        reject(new BatcherFull())
        return
      }
      const item: Waiting<C, R> = { command, key, next: undefined, resolve, reject }
      if (line) {
        line.last.next = item
        line.last = item
        line.length++
        return
      }
      if (key !== undefined) lines.set(key, { length: 1, last: item })
      enqueue(item)
    })
}
