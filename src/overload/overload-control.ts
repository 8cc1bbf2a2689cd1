/**
 * Overload control of one front thread: refuses requests, queues them and delays replies.
 *
 * 1. A connection is accepted or closed (`acceptsConnection`).
 * 2. A request is admitted or refused by its head (`refuse`), before its body is read.
 * 3. A complete request runs or waits (`run`): heavy addresses wait, and so do new orders.
 * 4. Failed requests are charged (`budget`), and delayed over the budget (`delayFailure`).
 */

import { countedAddress } from '../shared/lib/ip-address.ts'
import type { ResourceName } from '../shared/protocol/urls.ts'
import { AbuseBudget, type AbuseBudgetEvents, addressKey, FAILURE_DELAY_MS, HeavyAddresses } from './abuse-budget.ts'
import { Admission, type Refusal } from './admission.ts'
import { type EpisodeEvents, type LimitedResource, newOrdersBeside, retryAfterSeconds, WORK_CLASS } from './overload.ts'
import { DelayedReplies, LowPriorityQueue, tenPercentOfTick } from './waiting.ts'

export interface OverloadEvents {
  admission: EpisodeEvents
  budget: AbuseBudgetEvents
  /** @param total since the start */
  connectionsRefused(total: number): void
}

interface OverloadOptions {
  /** When false, nothing is measured or charged. */
  enabled: boolean
  targetDelayMs: number
  /** Limit of this thread. */
  maxConnections: number
  isTrustedProxy(address: string): boolean
  events: OverloadEvents
  /** For refusals and failures each. */
  maxDelayedReplies?: number
}

/** The head of a request; both are computed only while the thread is busy. */
interface RequestHead {
  address(): string
  resource(): LimitedResource
}

export interface WaitingRequest {
  readonly address: string
  /** Undefined outside of ACME. */
  readonly target: ResourceName | undefined
  /** Not behind requests of others, unless in a flood: probes must be answered above all when things go wrong. */
  readonly isProbe: boolean
  /** Its client has disconnected. */
  readonly isGone: boolean
}

interface ThreadLoad {
  /** Since the start, of all kinds. */
  requests: number
  /** Since the start. */
  refusedConnections: number
  /** Utilization of the event loop since the last tick, 0 to 1. */
  utilization: number
}

/** Free for clients that honour Retry-After; makes an immediate retry a thousand times slower. */
const REFUSAL_DELAY_MS = 2_000
/** The default limit of connections of a thread. */
const MAX_DELAYED_REPLIES = 8_192

export class OverloadControl<Reply> {
  /** Failed requests and signatures are charged to it by address. */
  readonly budget: AbuseBudget
  /** Told when a request begins, pauses for a validation, and ends. */
  readonly admission: Admission
  /** @returns whether a connection is accepted, by its address and the number of open ones */
  readonly acceptsConnection: (peerAddress: string, open: number) => boolean
  readonly #isEnabled: boolean
  readonly #events: OverloadEvents
  readonly #lateRefusals: DelayedReplies<Reply>
  readonly #lateFailures: DelayedReplies<Reply>
  readonly #servedLast = new LowPriorityQueue(tenPercentOfTick)
  readonly #newOrders = new LowPriorityQueue(() => this.#roomForNewOrders())
  /** Requests other than new orders since new orders last began, or since the queue was empty. */
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

  get delayedReplies(): number {
    return this.#lateRefusals.size + this.#lateFailures.size
  }

  /** @returns undefined when the request is admitted */
  refuse(head: RequestHead): Refusal | undefined {
    const { admission } = this
    if (!admission.isOverloaded) {
      if (admission.isWatching && admission.isSample()) admission.count(head.address(), head.resource() === 'probe')
      return undefined
    }
    return admission.refuse(head.resource(), head.address())
  }

  /**
   * Runs the work for a request, at once or from a queue.
   * @param work must not throw. It also runs for a disconnected client, but not as a new order
   *   that waits.
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
    // One owner for all, so first come, first served: `refuse` then measures every client's wait.
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

  /** @returns undefined when too many replies wait. */
  delayRefusal(reply: Reply): Promise<Reply> | undefined {
    return this.#lateRefusals.delay(reply, performance.now())
  }

  /** @returns undefined when too many replies wait. */
  delayFailure(reply: Reply): Promise<Reply> | undefined {
    return this.#lateFailures.delay(reply, performance.now())
  }

  /** Retry-After of a refusal for another reason than overload. */
  retryAfterSeconds(): number {
    return retryAfterSeconds(0, Math.random())
  }

  /** Called every `TICK_MS`. */
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

interface ConnectionGateOptions {
  /** Limit of this thread. */
  maxConnections: number
  /** A proxy forwards many clients, so it is never refused below the bound. */
  isTrustedProxy(address: string): boolean
  /** The thread is busy, or its queue grows. */
  isBusy(): boolean
  isOverloaded(): boolean
  /** The address has used up its budget of failed requests. */
  isUnwelcome(address: string): boolean
  clock?(): number
}

/** The library keeps an idle connection as long. */
const HALF_LIFE_MS = 10_000
/** An address with no more connections is never heavy. */
const FEW = 32
const LOOK_MS = 50

/**
 * The library ends silent connections after about ten seconds, so usually one bound is enough. Above half of it, or
 * under overload, heavy addresses are refused before the TLS handshake.
 * An address without budget keeps `FEW` connections, since refusing those would only cause more handshakes.
 * @returns whether a connection is accepted, by its address and the number of open ones
 */
export function createConnectionGate({
  maxConnections,
  isTrustedProxy,
  isBusy,
  isOverloaded,
  isUnwelcome,
  clock = () => performance.now(),
}: ConnectionGateOptions): (peerAddress: string, open: number) => boolean {
  const opened = new HeavyAddresses(HALF_LIFE_MS)
  let lookedAt = Number.NEGATIVE_INFINITY

  return (address, open) => {
    if (open > maxConnections) return false
    if (isTrustedProxy(address)) return true
    const now = clock()
    const key = addressKey(address)
    opened.count(key, 1, now)
    const isScarce = open > maxConnections / 2 || isOverloaded()
    if (!isScarce && !isBusy()) return true
    if (opened.amount(key, now) <= FEW) return true
    if (isUnwelcome(address)) return false
    if (!isScarce) return true
    if (now - lookedAt >= LOOK_MS) {
      lookedAt = now
      opened.look(now)
    }
    return !opened.isHeavy(key, now)
  }
}
