/**
 * The closed loop: each client begins its next operation when the last one has ended.
 *
 * The open loop: operations begin when they are due, whether or not earlier ones have ended.
 *
 * Many independent clients make a Poisson process; evenly spaced arrivals never queue below the limit and flatter the
 * server. Latency counts from when an operation was due, so a stalled server is charged for all who came meanwhile
 * (no coordinated omission).
 *
 * An arrival draws a free connection at random. The one used last belongs to the thread that answered last, which
 * would get all the load.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AcmeClient } from '../client/acme.ts'
import { Failure } from '../client/http.ts'
import type { RunStats } from '../measure/stats.ts'
import type { Arrivals, Phase } from './fleet.ts'

/** After a failure a client rests, so that a server which is down is not hammered by a tight loop. */
const REST_MS = 20
const MAX_REST_MS = 1000

export interface LoopControl {
  stopped: boolean
}

/** Resolves when every operation that was begun has ended. */
export async function runClosedLoop(
  clients: readonly AcmeClient[],
  phase: Exclude<Phase, { arrivals: Arrivals }>,
  operate: (client: AcmeClient) => Promise<void>,
  stats: RunStats,
  control: LoopControl,
): Promise<void> {
  const endsAt = 'forMs' in phase ? performance.now() + phase.forMs : Number.POSITIVE_INFINITY
  let left = 'operations' in phase ? phase.operations : Number.POSITIVE_INFINITY
  const goesOn = () => !control.stopped && left > 0 && performance.now() < endsAt

  const runClient = async (client: AcmeClient) => {
    while (goesOn()) {
      left--
      const startedAt = performance.now()
      try {
        await operate(client)
        stats.recordOperation(startedAt, performance.now(), endsAt)
      } catch (error) {
        stats.recordFailure(error)
        if (goesOn()) await sleep(restMs(error))
      }
    }
  }
  await Promise.all(clients.map(runClient))
}

/** Retry-After is honoured, but for at most a second: a run is short. */
function restMs(error: unknown): number {
  const seconds = error instanceof Failure ? (error.retryAfterSeconds ?? 0) : 0
  return Math.min(Math.max(seconds * 1000, REST_MS), MAX_REST_MS)
}

/** Between looks at what has become of those who wait. */
const LONGEST_NAP_MS = 10
/** Per process: a handshake takes 2 ms, so a thousand at once would keep it busy for two seconds. */
const OPENED_PER_SECOND = 150
const MOST_OPENED_AT_ONCE = 10

/** Resolves when the time is up and the last arrival has been served or has gone away. */
export function runOpenLoop(
  clients: readonly AcmeClient[],
  { steps, patienceMs }: Arrivals,
  operate: (client: AcmeClient) => Promise<void>,
  stats: RunStats,
  control: LoopControl,
): Promise<void> {
  const startedAt = performance.now()
  const endsAt = steps.reduce((end, { forMs }) => end + forMs, startedAt)
  const free = new FreeClients(clients)
  const arrivals = arrivalTimes(steps, startedAt)
  const crowdLeaves = leaveTimes(steps, startedAt)
  /** When each of those who wait was due, in order. */
  const waiting: number[] = []
  let next = arrivals.next()

  return new Promise((resolve) => {
    const serve = async (client: AcmeClient, dueAt: number) => {
      try {
        await operate(client)
        stats.recordOperation(dueAt, performance.now(), endsAt)
      } catch (error) {
        stats.recordFailure(error)
      }
      free.put(client)
      startWaiting()
    }
    const leave = (isLeaving: (dueAt: number) => boolean, at: number) => {
      for (; waiting[0] !== undefined && isLeaving(waiting[0]); waiting.shift()) stats.recordDropped(at)
    }
    const startWaiting = () => {
      const now = performance.now()
      leave((dueAt) => now - dueAt > patienceMs, now)
      while (waiting.length > 0) {
        const client = free.take(now)
        if (client === undefined) return
        void serve(client, waiting.shift() as number)
      }
    }
    const tick = () => {
      const now = performance.now()
      for (; !control.stopped && !next.done && next.value <= now; next = arrivals.next()) {
        stats.recordArrival(now - next.value)
        waiting.push(next.value)
      }
      for (; crowdLeaves[0] !== undefined && crowdLeaves[0] <= now; crowdLeaves.shift())
        leave(() => true, crowdLeaves[0] - 1)
      if (control.stopped) leave(() => true, now)
      startWaiting()
      const isOver = control.stopped || (next.done === true && now >= endsAt)
      if (isOver && waiting.length === 0 && free.length === clients.length) resolve()
      else setTimeout(tick, Math.min(next.done ? LONGEST_NAP_MS : next.value - now, LONGEST_NAP_MS))
    }
    tick()
  })
}

/** The process has no memory, so at the end of a step it is drawn anew with the next one's rate. */
function* arrivalTimes(steps: Arrivals['steps'], startedAt: number): Generator<number, undefined> {
  let from = startedAt
  for (const { perSecond, forMs } of steps) {
    const gap = () => (-Math.log(1 - Math.random()) * 1000) / perSecond
    for (let at = from + gap(); at < from + forMs; at += gap()) yield at
    from += forMs
  }
  return undefined
}

/** When steps end whose waiting arrivals leave with them. */
function leaveTimes(steps: Arrivals['steps'], startedAt: number): number[] {
  let end = startedAt
  return steps.flatMap(({ forMs, leaveAtEnd }) => {
    end += forMs
    return leaveAtEnd ? [end] : []
  })
}

/** Clients without an operation: those with a connection first. */
class FreeClients {
  readonly #connected: AcmeClient[] = []
  readonly #others: AcmeClient[] = []
  /** When the next connection may be opened, had none been opened before its time. */
  #mayOpenAt = 0

  constructor(clients: readonly AcmeClient[]) {
    for (const client of clients) this.put(client)
  }

  get length(): number {
    return this.#connected.length + this.#others.length
  }

  put(client: AcmeClient): void {
    const list = client.isConnected ? this.#connected : this.#others
    list.push(client)
  }

  take(now: number): AcmeClient | undefined {
    for (let client = this.#draw(); client; client = this.#draw()) {
      if (client.isConnected) return client
      // It has rested for too long meanwhile, or the server has closed it.
      this.#others.push(client)
    }
    if (this.#others.length === 0 || this.#mayOpenAt > now) return undefined
    const intervalMs = 1000 / OPENED_PER_SECOND
    this.#mayOpenAt = Math.max(this.#mayOpenAt, now - MOST_OPENED_AT_ONCE * intervalMs) + intervalMs
    return this.#others.pop()
  }

  #draw(): AcmeClient | undefined {
    const last = this.#connected.pop()
    const place = Math.floor(Math.random() * (this.#connected.length + 1))
    const drawn = this.#connected[place]
    if (drawn === undefined || last === undefined) return last
    this.#connected[place] = last
    return drawn
  }
}
