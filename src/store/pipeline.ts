/**
 * Runs hot statements in groups: one write, one implicit transaction, one commit.
 *
 * One connection is enough while groups are fast. When a group takes 50 ms, a second connection
 * starts, up to the bound of the pool. The statements of a group are sorted by name on every
 * instance, so that groups which want the same rows rarely deadlock. Results are returned after the
 * commit. When a statement fails, its group is rolled back and each statement runs alone; a lost
 * connection fails the group.
 */

import pg from './pg.ts'
import { createGroup, type Statement, type Wanted } from './statement-group.ts'

export interface Pipeline {
  /**
   * Rows of one statement, each of whose parameters has a type (`$1::uuid[]`). Settles after the
   * commit.
   */
  run<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
  /**
   * Calls `start` once, when the next group is assembled. Statements it runs before it returns join
   * that group.
   */
  whenFree(start: () => void): void
  /**
   * Sets the milliseconds between the starts of two groups, 0 at first. After a pause a group
   * starts at once.
   */
  keepDistance(ms: number): void
  /** Statements and callbacks that wait while all possible connections are busy; otherwise 0. */
  waiting(): number
}

/**
 * A group takes a few milliseconds. A second connection from the start would make groups smaller
 * and dearer.
 */
const SLOW_MS = 50

/**
 * Distance of groups on a busy thread, or one whose callers do not wait; even load alone makes 5 to
 * 8 ms. Interruptions such as handshakes double or triple the groups, which makes certificates a
 * fifth to a third dearer (docs/decisions/statement-groups.md).
 */
export const GROUP_DISTANCE_MS = 8

/** A statement that ran too long; a second run would take as long. */
const CANCELLED = '57014'
/** Shutdown, a lost connection, a time-out that ends the session. */
const ENDS_SESSION = /^(?:57P|08|25P03)/

/** @param onStart is called with each connection that starts a group */
export function createPipeline(pool: pg.Pool, max: number, onStart: (client: pg.PoolClient) => void): Pipeline {
  let wanted: Wanted[] = []
  let starts: (() => void)[] = []
  /** One entry a connection in use: when its current group started. */
  const running = new Set<{ since: number }>()
  let isScheduled = false
  let isTimed = false
  let distanceMs = 0
  let begunAt = Number.NEGATIVE_INFINITY

  /**
   * Waits at least for the end of the event-loop turn, so that requests read together share a
   * group.
   */
  function whenDue(start: () => void): void {
    const left = distanceMs === 0 ? 0 : begunAt + distanceMs - performance.now()
    if (left > 0) setTimeout(start, left)
    else setImmediate(start)
  }

  const isAnythingWanted = () => wanted.length > 0 || starts.length > 0

  function wake(): void {
    if (isScheduled || !isAnythingWanted()) return
    const now = performance.now()
    let slow = 0
    let nextSlow = Number.POSITIVE_INFINITY
    for (const { since } of running) {
      if (since + SLOW_MS <= now) slow++
      else nextSlow = Math.min(nextSlow, since + SLOW_MS)
    }
    if (running.size < Math.min(max, 1 + slow)) {
      isScheduled = true
      whenDue(() => {
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

  function take(): Wanted[] {
    const ready = starts
    starts = []
    for (const start of ready) start()
    const group = wanted.sort((a, b) => (a.statement.name < b.statement.name ? -1 : 1))
    wanted = []
    return group
  }

  /** Runs groups until nothing is wanted, a distance is set, or others wait for a connection. */
  async function serve(): Promise<void> {
    const turn = { since: performance.now() }
    running.add(turn)
    const client = await pool.connect().catch((error: unknown) => {
      running.delete(turn)
      for (const { reject } of take()) reject(error)
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
      begunAt = turn.since
      onStart(client)
      if (!(await runGroup(client, take()))) isBroken = true
      await new Promise(setImmediate)
    } while (!isBroken && distanceMs === 0 && isAnythingWanted() && pool.waitingCount === 0)
    running.delete(turn)
    client.off('error', onBreak)
    client.release(isBroken)
    wake()
  }

  return {
    run<Row>(statement: Statement, values: readonly unknown[]) {
      return new Promise<Row[]>((resolve, reject) => {
        wanted.push({ statement, values, resolve: resolve as Wanted['resolve'], reject })
        wake()
      })
    },
    whenFree(start) {
      starts.push(start)
      wake()
    },
    keepDistance(ms) {
      distanceMs = ms
    },
    waiting: () => (running.size < max ? 0 : wanted.length + starts.length),
  }
}

/** @returns whether the connection can be used again */
async function runGroup(client: pg.PoolClient, group: readonly Wanted[]): Promise<boolean> {
  if (group.length === 0) return true
  const { failure, failed, sent } = await createGroup(client, group)
  if (!failure) return true
  // By code: the server translates the word for the severity.
  const isAlive = failure instanceof pg.DatabaseError && !ENDS_SESSION.test(failure.code ?? '')
  if (!isAlive || sent.length === 1) {
    for (const { reject } of sent) reject(failure)
    return isAlive
  }
  for (const [i, one] of sent.entries()) {
    if (one === failed && failure.code === CANCELLED) one.reject(failure)
    else if (!(await runGroup(client, [one]))) {
      for (const { reject } of sent.slice(i + 1)) reject(new Error('Connection terminated', { cause: failure }))
      return false
    }
  }
  return true
}
