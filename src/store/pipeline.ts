/**
 * Runs hot statements in groups: one write, one transaction, one commit.
 *
 * One connection is enough while groups are fast. When a group takes 50 ms, a second connection starts, up to the bound
 * of the pool. The statements of a group are sorted by name on every instance, so that groups which want the same rows
 * rarely deadlock. Results are returned after the commit. When a statement fails, its group is rolled back and each
 * statement runs alone; a lost connection fails the group.
 */

import type pg from './pg.ts'
import { forgetStatements } from './pg.ts'
import { endsSession, isStalePlan, isWorthRepeating, REPEATS } from './sqlstate.ts'

/** A statement with a name is prepared once for each connection. */
export interface Statement {
  name: string
  text: string
}

/** A statement with the promise of its rows. */
interface Wanted {
  statement: Statement
  values: readonly unknown[]
  resolve(rows: Record<string, unknown>[]): void
  reject(error: unknown): void
}

export interface Pipeline {
  /** Rows of one statement, each of whose parameters has a type (`$1::uuid[]`). Settles after the commit. */
  run<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
  /** Calls `start` once, when the next group is assembled. Statements it runs before it returns join that group. */
  whenFree(start: () => void): void
  /** Statements and callbacks that wait while all possible connections are busy; otherwise 0. */
  waiting(): number
}

/** A group takes a few milliseconds. A second connection from the start would make groups smaller and dearer. */
const SLOW_MS = 50

/** A statement that ran too long; a second run would take as long. */
const CANCELLED = '57014'

/** The pool, as far as the pipeline uses it. */
interface Connections {
  connect(): Promise<pg.PoolClient>
  /** How many others wait for a connection. */
  waiting(): number
}

/** @param onStart is called with each connection that starts a group */
export function createPipeline(pool: Connections, max: number, onStart: (client: pg.PoolClient) => void): Pipeline {
  const waiting = new WaitingStatements()
  /** One entry a connection in use: when its current group started. */
  const running = new Set<RunningGroup>()
  let isScheduled = false
  let isTimed = false

  function wake(): void {
    if (isScheduled || waiting.length === 0) return
    const now = performance.now()
    const { slow, nextSlow } = countSlow(running, now)
    if (running.size < Math.min(max, 1 + slow)) {
      isScheduled = true
      // Requests that the event loop has read together share a group.
      setImmediate(() => {
        isScheduled = false
        void serve()
      })
    } else if (!isTimed && running.size < max) {
      isTimed = true
      setTimeout(wakeLater, nextSlow - now)
    }
  }

  function wakeLater(): void {
    isTimed = false
    wake()
  }

  /** Runs groups until nothing is wanted, or others wait for a connection. */
  async function serve(): Promise<void> {
    const turn = { since: performance.now() }
    running.add(turn)
    const client = await pool.connect().catch((error: unknown) => {
      running.delete(turn)
      for (const { reject } of waiting.takeGroup()) reject(error)
    })
    if (!client) return
    // A break between two groups shows only here; during a group it also fails the group.
    let isBroken = false
    const onBreak = () => {
      isBroken = true
    }
    client.on('error', onBreak)
    do {
      turn.since = performance.now()
      onStart(client)
      if (!(await runGroup(client, waiting.takeGroup()))) isBroken = true
      await new Promise(setImmediate)
    } while (!isBroken && waiting.length > 0 && pool.waiting() === 0)
    running.delete(turn)
    client.off('error', onBreak)
    client.release(isBroken)
    wake()
  }

  return {
    run<Row>(statement: Statement, values: readonly unknown[]) {
      return new Promise<Row[]>((resolve, reject) => {
        waiting.add({ statement, values, resolve: resolve as Wanted['resolve'], reject })
        wake()
      })
    },
    whenFree(start) {
      waiting.addStart(start)
      wake()
    },
    waiting: () => (running.size < max ? 0 : waiting.length),
  }
}

/** Statements of the next group, and callbacks that will add theirs. */
class WaitingStatements {
  #wanted: Wanted[] = []
  #starts: (() => void)[] = []

  get length(): number {
    return this.#wanted.length + this.#starts.length
  }

  add(statement: Wanted): void {
    this.#wanted.push(statement)
  }

  addStart(start: () => void): void {
    this.#starts.push(start)
  }

  takeGroup(): Wanted[] {
    const starts = this.#starts
    this.#starts = []
    for (const start of starts) start()
    const group = this.#wanted.sort((a, b) => (a.statement.name < b.statement.name ? -1 : 1))
    this.#wanted = []
    return group
  }
}

interface RunningGroup {
  since: number
}

/** @returns how many groups are slow, and when the next one will be */
function countSlow(running: ReadonlySet<RunningGroup>, now: number): { slow: number; nextSlow: number } {
  let slow = 0
  let nextSlow = Number.POSITIVE_INFINITY
  for (const { since } of running) {
    if (since + SLOW_MS <= now) slow++
    else nextSlow = Math.min(nextSlow, since + SLOW_MS)
  }
  return { slow, nextSlow }
}

/** @returns whether the connection can be used again */
async function runGroup(client: pg.PoolClient, group: readonly Wanted[], repeats = REPEATS): Promise<boolean> {
  if (group.length === 0) return true
  const isOne = group.length === 1
  const { stream } = (client as unknown as { connection: pg.Connection }).connection
  stream.cork()
  const queries = [
    ...(isOne ? [] : [client.query('BEGIN')]),
    ...group.map(({ statement, values }) => client.query({ ...statement, values: values as unknown[] })),
    // After a failure it rolls back.
    ...(isOne ? [] : [client.query('COMMIT')]),
  ]
  stream.uncork()
  const results = await Promise.allSettled(queries)
  const failedAt = results.findIndex(({ status }) => status === 'rejected')
  const first = isOne ? 0 : 1
  if (failedAt >= 0) {
    const { reason } = results[failedAt] as PromiseRejectedResult
    if (failedAt >= first) return await recover(client, group, { reason, failed: group[failedAt - first], repeats })
    // Without BEGIN each statement has committed alone, or failed.
    for (const { reject } of group) reject(new Error('Connection terminated', { cause: reason }))
    return false
  }
  for (const [i, { resolve }] of group.entries())
    resolve((results[first + i] as PromiseFulfilledResult<pg.QueryResult>).value.rows)
  return true
}

interface Failure {
  reason: unknown
  /** Undefined when the commit failed. */
  failed: Wanted | undefined
  /** How often a statement alone may be repeated. */
  repeats: number
}

/** @returns whether the connection can be used again */
async function recover(client: pg.PoolClient, group: readonly Wanted[], failure: Failure): Promise<boolean> {
  const { reason, failed, repeats } = failure
  const isAlive = isStalePlan(reason) ? await forgetStatements(client) : !endsSession(reason)
  if (isAlive && group.length === 1 && repeats > 0 && isWorthRepeating(reason))
    return runGroup(client, group, repeats - 1)
  if (!isAlive || group.length === 1) {
    for (const { reject } of group) reject(reason)
    return isAlive
  }
  for (const [i, one] of group.entries()) {
    if (one === failed && (reason as { code?: unknown }).code === CANCELLED) one.reject(reason)
    else if (!(await runGroup(client, [one]))) {
      for (const { reject } of group.slice(i + 1)) reject(new Error('Connection terminated', { cause: reason }))
      return false
    }
  }
  return true
}
