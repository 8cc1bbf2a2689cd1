/**
 * Hot statements, in groups: what is wanted at the time a connection is free goes out in one write, as one implicit
 * transaction with one commit, and comes back together.
 *
 * One connection is enough, and groups grow with the load: whoever gathers commands (lib/batcher.ts) is asked for them
 * at the last moment (`whenFree`). A group that is slow, be it the disk or a row that somebody has locked, lets another
 * connection start beside it; so nothing but its own group waits for what is stuck, up to the bound of the pool.
 *
 * The statements of a group go in the order of their names, here and in every other instance, so that two groups which
 * want the same rows seldom wait for each other; where they do, the database ends it and each statement goes again. Nobody hears of a result before its commit. When a
 * statement fails, nothing of its group has happened, and each goes again on its own: it fails or succeeds as it would
 * have done alone. When the connection is lost, all of them fail with it.
 */

import pg from './pg.ts'
import { createGroup, type Statement, type Wanted } from './statement-group.ts'

export interface Pipeline {
  /** Rows of one statement, whose parameters all say their types (`$1::uuid[]`). Settles after the commit. */
  run<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
  /** Calls `start` once, when a group is made up; what it runs before it returns is part of that group. */
  whenFree(start: () => void): void
  /** Milliseconds between the beginnings of two groups: none at first. One that comes after a pause begins at once. */
  keepDistance(ms: number): void
  /** What is wanted while all connections that there may be are at work. */
  waiting(): number
}

/** A group takes a few milliseconds. On a second connection from the start the groups would be smaller, and dearer. */
const SLOW_MS = 50

/**
 * Between the groups of a thread that is busy, or whose callers do not wait. A busy front under even load begins one every 5 to 8 ms by
 * itself. What interrupts it, such as handshakes, makes it begin two or three times as many with as little in each, and each certificate
 * dearer by a fifth to a third (docs/decisions/statement-groups.md).
 */
export const GROUP_DISTANCE_MS = 8

/** Statements that ran too long; going again would take as long. */
const CANCELLED = '57014'
/** Shutdown, a lost connection, a time-out that ends the session. */
const ENDS_SESSION = /^(?:57P|08|25P03)/

/** @param onStart hears of a connection that starts a group */
export function createPipeline(pool: pg.Pool, max: number, onStart: (client: pg.PoolClient) => void): Pipeline {
  let wanted: Wanted[] = []
  let starts: (() => void)[] = []
  /** When each connection in use began what it is at. */
  const running = new Set<{ since: number }>()
  let isScheduled = false
  let isTimed = false
  let distanceMs = 0
  let begunAt = Number.NEGATIVE_INFINITY

  /** The end of the event-loop turn is waited for in any case, so that requests read from the sockets together travel together. */
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

  /** Runs groups until nothing is wanted, or the next is not due, or somebody else waits for the connection. */
  async function serve(): Promise<void> {
    const turn = { since: performance.now() }
    running.add(turn)
    const client = await pool.connect().catch((error: unknown) => {
      running.delete(turn)
      for (const { reject } of take()) reject(error)
    })
    if (!client) return
    // What breaks the connection also fails the group that is under way; between two of them, nothing else would say so.
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
  // By code, as the word for the severity is in the language of the server.
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
