/**
 * Overload control of one front thread, behind one object: which requests are refused, which wait, which replies are late.
 *
 * 1. A connection is taken or not (`acceptsConnection`).
 * 2. By its head a request goes on or is refused (`refuse`), before its body is read.
 * 3. With its body it runs at once or waits (`run`): requests of heavy addresses, then new orders.
 * 4. Failed requests are charged to their address (`failed`), whose replies are then delayed (`delayFailure`).
 */

import { countedAddress } from '../domain/rate-limit.ts'
import type { ResourceName } from '../shared/protocol/urls.ts'
import { AbuseBudget, type AbuseBudgetEvents } from './abuse-budget.ts'
import { Admission, type Refusal } from './admission.ts'
import { createConnectionGate } from './connection-gate.ts'
import { DelayedReplies } from './delayed-replies.ts'
import { LowPriorityQueue, tenPercentOfTick } from './low-priority-queue.ts'
import { type LimitedResource, newOrdersBeside, retryAfterSeconds, WORK_CLASS } from './overload.ts'
import type { EpisodeEvents } from './overload-episode.ts'

export interface OverloadEvents {
  admission: EpisodeEvents
  budget: AbuseBudgetEvents
  /** @param total since the start */
  connectionsRefused(total: number): void
}

export interface OverloadOptions {
  /** False: nothing is measured and nothing charged. */
  enabled: boolean
  targetDelayMs: number
  /** Of this thread. */
  maxConnections: number
  isTrustedProxy(address: string): boolean
  events: OverloadEvents
  /** Of each kind of delayed replies. */
  maxDelayedReplies?: number
}

/** The head of a request; both are computed only while the thread is busy. */
export interface RequestHead {
  address(): string
  resource(): LimitedResource
}

export interface WaitingRequest {
  readonly address: string
  /** Undefined outside of ACME. */
  readonly target: ResourceName | undefined
  /** Not behind requests of others, unless in a flood: probes must be answered above all when things go wrong. */
  readonly isProbe: boolean
  /** Its client has gone away. */
  readonly isGone: boolean
}

export interface ThreadLoad {
  /** Since the start, of all kinds. */
  requests: number
  /** Since the start. */
  refusedConnections: number
  /** Of the event loop since the last tick, 0 to 1. */
  utilization: number
}

/** A patient client loses nothing by this, and an impatient one becomes a thousand times slower. */
const REFUSAL_DELAY_MS = 2_000
/** Half of the time for which the library lets a connection be silent. */
const FAILURE_DELAY_MS = 5_000
/** As many as there can be connections. */
const MAX_DELAYED_REPLIES = 8_192

export class OverloadControl<Reply> {
  /** Read by the gate of ACME requests, which charges what their signatures cost. */
  readonly budget: AbuseBudget
  /** Told by requests that pause for a validation. */
  readonly admission: Admission
  /** @returns whether a connection is taken, given its address and how many are open. */
  readonly acceptsConnection: (peerAddress: string, open: number) => boolean
  readonly #isEnabled: boolean
  readonly #events: OverloadEvents
  readonly #lateRefusals: DelayedReplies<Reply>
  readonly #lateFailures: DelayedReplies<Reply>
  readonly #servedLast = new LowPriorityQueue(tenPercentOfTick)
  readonly #newOrders = new LowPriorityQueue(() => this.#roomForNewOrders())
  /** Requests of orders under way since new orders were last let in, or since the first of them waits. */
  #ongoing = 0

  constructor({ events, maxDelayedReplies: capacity = MAX_DELAYED_REPLIES, ...options }: OverloadOptions) {
    const { enabled: isEnabled, targetDelayMs, maxConnections, isTrustedProxy } = options
    this.#isEnabled = isEnabled
    this.#events = events
    this.budget = new AbuseBudget({ isEnabled, events: events.budget })
    this.admission = new Admission(targetDelayMs, events.admission)
    this.#lateRefusals = new DelayedReplies({ delayMs: REFUSAL_DELAY_MS, capacity })
    this.#lateFailures = new DelayedReplies({ delayMs: FAILURE_DELAY_MS, capacity })
    this.acceptsConnection = createConnectionGate({
      maxConnections,
      isTrustedProxy,
      isBusy: () => this.admission.isWatching,
      isOverloaded: () => this.admission.isOverloaded,
      isUnwelcome: (address) => this.budget.isExhausted(address),
    })
  }

  /** While this is false `refuse` has nothing to do. */
  get isWatching(): boolean {
    return this.admission.isWatching
  }

  get delayedReplies(): number {
    return this.#lateRefusals.size + this.#lateFailures.size
  }

  /** @returns undefined: the request may go on. */
  refuse(head: RequestHead): Refusal | undefined {
    const { admission } = this
    if (!admission.isOverloaded) {
      if (admission.isWatching && admission.isSample()) admission.count(head.address(), head.resource() === 'probe')
      return undefined
    }
    return admission.refuse(head.resource(), head.address())
  }

  /**
   * Runs the work for a request, now or in its turn.
   * @param work must not throw. It runs as well, and earlier, where the client has gone away.
   */
  run(request: WaitingRequest, work: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    const { address, isProbe } = request
    const isServedLast = (this.budget.isExhausted(address) && !isProbe) || this.admission.isServedLast(address, isProbe)
    if (!isServedLast) return this.#begin(request, work)
    return inTurn(this.#servedLast, countedAddress(address), () => this.#begin(request, work))
  }

  #begin(request: WaitingRequest, work: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    if (request.isGone) return work()
    if (!this.admission.hasQueue || !isNew(request)) {
      this.#ongoing++
      return work()
    }
    if (this.#newOrders.isEmpty) this.#ongoing = 0
    this.admission.newOrderWaits()
    // One owner for all, so first come, first served: refusals then judge by the wait of every client.
    return inTurn(this.#newOrders, '', () => {
      this.admission.waitingNewOrderBegins()
      return work()
    })
  }

  #roomForNewOrders(): number {
    const room = newOrdersBeside(this.#ongoing)
    this.#ongoing = 0
    return room
  }

  /** A request that is not answered in its turn has begun. */
  began(resource: string): void {
    this.admission.began(resource)
  }

  ended(resource: string): void {
    this.admission.ended(resource)
  }

  /** @param cost 1 is that of a signature. */
  failed(address: string, cost: number): void {
    this.budget.charge(address, cost)
  }

  isHeldBack(address: string): boolean {
    return this.budget.isExhausted(address)
  }

  /** @returns undefined when too many replies wait. */
  delayRefusal(reply: Reply): Promise<Reply> | undefined {
    return this.#lateRefusals.delay(reply, performance.now())
  }

  /** @returns undefined when too many replies wait. */
  delayFailure(reply: Reply): Promise<Reply> | undefined {
    return this.#lateFailures.delay(reply, performance.now())
  }

  /** Of a refusal that is no matter of delay. */
  retryAfterSeconds(): number {
    return retryAfterSeconds(0, Math.random())
  }

  /** Every `TICK_MS`. */
  tick(now: number, { requests, refusedConnections, utilization }: ThreadLoad): void {
    if (this.#isEnabled) this.admission.tick(now, requests, utilization)
    this.#lateRefusals.release(now)
    this.#lateFailures.release(now)
    this.#events.connectionsRefused(refusedConnections)
  }

  /** Sends all delayed replies. */
  release(): void {
    this.#lateRefusals.release()
    this.#lateFailures.release()
  }
}

const isNew = ({ target }: WaitingRequest): boolean => target !== undefined && WORK_CLASS[target] === 'new'

function inTurn<T>(queue: LowPriorityQueue, owner: string, work: () => T | Promise<T>): Promise<T> {
  return new Promise((resolve) => queue.push(owner, () => resolve(work())))
}
