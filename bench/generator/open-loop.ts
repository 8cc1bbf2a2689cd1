/**
 * The open loop: operations begin when they are due, whether or not earlier ones have ended.
 *
 * Arrivals are a Poisson process, which is what many clients make that know nothing of each other; evenly spaced ones would never
 * queue below the limit and flatter the server. Each process draws its own, and the sum of Poisson processes is one.
 *
 * An arrival takes any open connection that is free, and a new one only when there is none, so that as few are open as the load needs. It is
 * drawn: the one used last would be one of the server's thread that was last to answer, which would then get all the load. Without one it
 * waits its turn, and after `patienceMs` it goes away and counts as dropped. Latency counts from when it was due: a server that stalls is charged
 * for everyone who came meanwhile (no coordinated omission).
 *
 * Connections are opened one after the other, a bounded number a second. A handshake costs the generator 2 ms and more, twice what it costs
 * the server: a thousand at once would keep a core of it busy for three seconds, in which it would measure itself.
 */

import type { AcmeClient } from '../client/acme.ts'
import type { RunStats } from '../measure/stats.ts'
import type { LoopControl } from './clients.ts'
import type { Arrivals } from './messages.ts'

/** Between looks at what has become of those who wait. */
const LONGEST_NAP_MS = 10
/** Of a process: a third of its core. */
const OPENED_PER_SECOND = 150
const MOST_OPENED_AT_ONCE = 10
/** What has left the queue is forgotten in lumps of this many. */
const FORGET_AT = 4096

/** Resolves when the time is up and the last arrival has been served or has gone away. */
export function runOpenLoop(
  clients: readonly AcmeClient[],
  { steps, patienceMs }: Arrivals,
  operate: (client: AcmeClient) => Promise<void>,
  stats: RunStats,
  control: LoopControl,
): Promise<void> {
  // Those of a closed loop before are in use already.
  const free = new FreeClients()
  for (const client of [...clients].reverse()) free.put(client)
  const waiting = new Waiting(patienceMs, stats)
  const due = new Schedule(steps, performance.now())

  return new Promise((resolve) => {
    const serve = async (client: AcmeClient, meantAt: number) => {
      try {
        await operate(client)
        stats.recordOperation(meantAt, performance.now(), due.endsAt)
      } catch (error) {
        stats.recordFailure(error)
      }
      free.put(client)
      startWaiting()
    }
    const startWaiting = () => {
      const now = performance.now()
      waiting.leaveImpatient(now)
      while (waiting.length > 0) {
        const client = free.take(now)
        if (client === undefined) return
        void serve(client, waiting.take() as number)
      }
    }
    const tick = () => {
      const now = performance.now()
      if (control.stopped) due.stop()
      for (let meantAt = due.take(now); meantAt !== undefined; meantAt = due.take(now)) {
        stats.recordArrival(now - meantAt)
        waiting.add(meantAt)
      }
      const crowdLeftAt = control.stopped ? now : due.crowdLeftAt(now)
      if (crowdLeftAt !== undefined) waiting.leave(crowdLeftAt)
      startWaiting()
      const isOver = due.isOver && waiting.length === 0 && free.length === clients.length
      if (isOver && (now >= due.endsAt || control.stopped)) resolve()
      else setTimeout(tick, Math.min(due.next - now, LONGEST_NAP_MS))
    }
    tick()
  })
}

/** Clients without an operation: those with a connection first. */
class FreeClients {
  readonly #connected: AcmeClient[] = []
  readonly #others: AcmeClient[] = []
  /** When the next connection may be opened, had none been opened before its time. */
  #mayOpenAt = 0

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
    if (this.#others.length === 0) return undefined
    if (this.#mayOpenAt > now) return undefined
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

/** The times of arrivals; a step's rate holds from where the one before ended. */
class Schedule {
  next: number
  endsAt: number
  readonly #steps: Arrivals['steps']
  readonly #stepEnds: number[]
  #step = 0
  /** How many steps have ended and were told of. */
  #told = 0

  constructor(steps: Arrivals['steps'], startedAt: number) {
    this.#steps = steps
    let end = startedAt
    this.#stepEnds = steps.map(({ forMs }) => {
      end += forMs
      return end
    })
    this.endsAt = end
    this.next = this.#after(startedAt)
  }

  get isOver(): boolean {
    return this.#step >= this.#steps.length
  }

  stop(): void {
    this.#step = this.#steps.length
  }

  /** @returns when the next arrival that is due was due; undefined when none is. */
  take(now: number): number | undefined {
    if (this.isOver || this.next > now) return undefined
    const meantAt = this.next
    this.next = this.#after(meantAt)
    return meantAt
  }

  /** @returns once after a step whose waiting arrivals leave with it, its last moment. */
  crowdLeftAt(now: number): number | undefined {
    let leftAt: number | undefined
    for (; (this.#stepEnds[this.#told] ?? Number.POSITIVE_INFINITY) <= now; this.#told++) {
      if (this.#steps[this.#told]?.leaveAtEnd) leftAt = (this.#stepEnds[this.#told] as number) - 1
    }
    return leftAt
  }

  /** The process has no memory, so at the end of a step it is drawn anew with the next one's rate. */
  #after(time: number): number {
    for (let from = time; this.#step < this.#steps.length; this.#step++) {
      const end = this.#stepEnds[this.#step] as number
      const next = from + (-Math.log(1 - Math.random()) * 1000) / (this.#steps[this.#step]?.perSecond as number)
      if (next < end) return next
      from = end
    }
    return Number.POSITIVE_INFINITY
  }
}

/** First come, first served. */
class Waiting {
  #times: number[] = []
  #head = 0
  readonly #patienceMs: number
  readonly #stats: RunStats

  constructor(patienceMs: number, stats: RunStats) {
    this.#patienceMs = patienceMs
    this.#stats = stats
  }

  get length(): number {
    return this.#times.length - this.#head
  }

  add(meantAt: number): void {
    this.#times.push(meantAt)
  }

  take(): number | undefined {
    if (this.length === 0) return undefined
    const time = this.#times[this.#head++]
    if (this.#head > FORGET_AT) {
      this.#times = this.#times.slice(this.#head)
      this.#head = 0
    }
    return time
  }

  leaveImpatient(now: number): void {
    while (this.length > 0 && now - (this.#times[this.#head] as number) > this.#patienceMs) {
      this.take()
      this.#stats.recordDropped(now)
    }
  }

  leave(at: number): void {
    while (this.take() !== undefined) this.#stats.recordDropped(at)
  }
}
