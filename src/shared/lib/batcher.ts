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
 * with. The others line up behind it, in the order they came, and take up nobody else's room meanwhile.
 */

export interface BatcherOptions {
  /** Upper bound of one flush; what is over it goes with the next. */
  maxBatch: number
  /** Flushes in flight at once; as many database connections can be busy with this kind. */
  maxConcurrent: number
  /** Commands waiting beyond which new ones are refused with `BatcherFull`. */
  maxWaiting: number
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

/** @param keyOf of the row that a command updates; a flush gets its commands in the order of their keys */
export function createBatcher<C, R>(
  flush: Flush<C, R>,
  options: BatcherOptions,
  keyOf?: (command: C) => string,
): Batched<C, R> {
  const { whenFree = setImmediate } = options
  let waiting: Waiting<C, R>[] = []
  let running = 0
  /** When something was taken from what waits or came back, or the first of what waits came. */
  let movedAt = 0
  /** The last command of each key of which one waits or is under way. */
  const lastOf = new Map<string, Waiting<C, R>>()
  let linedUp = 0

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

  function advance({ key, next }: Waiting<C, R>): void {
    if (next) {
      linedUp--
      enqueue(next)
    } else if (key !== undefined) lastOf.delete(key)
  }

  function fail(first: Waiting<C, R>, error: unknown): void {
    first.reject(error)
    if (options.retryable(error)) {
      advance(first)
      return
    }
    // The database is away, or stuck at this row: those behind would meet the same, each after a time-out of its own.
    if (first.key !== undefined) lastOf.delete(first.key)
    for (let item = first.next; item; item = item.next) {
      linedUp--
      item.reject(error)
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

  function start(): void {
    asked = false
    if (waiting.length === 0) return
    const batch = waiting.length <= options.maxBatch ? waiting : waiting.slice(0, options.maxBatch)
    waiting = waiting.length <= options.maxBatch ? [] : waiting.slice(options.maxBatch)
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
      if (waiting.length + linedUp >= options.maxWaiting || isStuck()) {
        reject(new BatcherFull())
        return
      }
      const key = keyOf?.(command)
      const item: Waiting<C, R> = { command, key, next: undefined, resolve, reject }
      const last = key === undefined ? undefined : lastOf.get(key)
      if (key !== undefined) lastOf.set(key, item)
      if (last) {
        last.next = item
        linedUp++
      } else enqueue(item)
    })
}
