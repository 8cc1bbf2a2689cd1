/**
 * Admission control of one front thread: what it measures, whom it turns away, and what it says of it.
 *
 * A thread decides for itself, from what it sees: how late its own timer runs, which is how long a request waits until
 * it is read, and how many requests that need the database are under way and answered (`domain/overload.ts`). While neither is
 * remarkable a request costs one comparison. From a third of the accepted delay on, and when the thread has no rest any more, it is
 * counted who asks: whoever asks far more than others then lets them go first, and is the first to be refused.
 *
 * A refusal is cheap, and a client that asks again at once makes it expensive all the same. So addresses that take more
 * than their share get theirs late, and so does everybody when there are more refusals than a thread can make in passing.
 */

import { countedAddress } from '../domain/rate-limit.ts'
import type { ResourceName } from '../shared/protocol/urls.ts'
import { DecayingSketch, sketchKey } from './decaying-sketch.ts'
import {
  beginningPressure,
  CALM,
  expectedDelayMs,
  isHeavy,
  isTurnedAway,
  nextRate,
  nextState,
  readingDelayMs,
  retryAfterSeconds,
  TICK_MS,
  WORK_CLASS,
} from './overload.ts'

export type ShedReason = 'delay' | 'heavy_address'

export interface Refusal {
  reason: ShedReason
  retryAfterSeconds: number
  /** Better sent late. */
  isLate: boolean
}

export interface EpisodeFacts {
  /** Of the last tick. */
  delayMs: number
  inFlight: number
}

export interface AdmissionEvents {
  begun(facts: EpisodeFacts): void
  ended(facts: { seconds: number; turnedAway: number }): void
  /** Once a tick, for those of it. */
  turnedAway(reason: ShedReason, count: number): void
}

export interface Admission {
  /** While this is false nobody need be counted. */
  readonly isWatching: boolean
  /** While this is false `judge` lets everybody in. */
  readonly isOverloaded: boolean
  /** Whether the request of this moment stands for those since the last that did; `saw` then counts it for them all. */
  isSample(): boolean
  saw(address: string): void
  /** Counts the request as well. @returns undefined: let it in. */
  judge(resource: ResourceName, address: string): Refusal | undefined
  /** Whether the requests of an address had better let those of others go first: it takes far more of a thread that is busy. */
  yields(address: string): boolean
  /** While requests queue, those that begin something new had better wait for those that go on. */
  readonly hasQueue: boolean
  /** A request has begun to wait so, or one that did is let in. */
  held(): void
  letIn(): void
  /** A request of `MEASURED` has begun, or has been answered. */
  began(): void
  ended(): void
  /** It waits for somebody else's work, and goes on. */
  paused(): void
  resumed(): void
  /**
   * Every `TICK_MS`.
   * @param requests that have come since the start, of all kinds. @param utilization of the thread's event loop since the last tick, 0 to 1.
   */
  tick(now: number, requests: number, utilization: number): void
}

/** Requests that wait for the database, if for anybody: not for a signer, not for a name server. */
export const MEASURED: ReadonlySet<string> = new Set<ResourceName>([
  ...(['account', 'accountOrders', 'newOrder', 'newAuthz', 'renewalInfo'] as const),
  ...(['order', 'authorization', 'challenge', 'certificate'] as const),
])

const WATCHED = 0.3
/** From here on there is a queue to be put in order. */
const QUEUED = 0.3
/** Utilization of an event loop that has no rest. */
export const BUSY = 0.9
/** A request that has to wait counts four times: whoever is slowed down gets less than he asks for, and is not light for that. */
const WAITED = 3
/** A thread that has no rest serves thousands of requests a second: one in eight tells who asks for how much. */
const SAMPLING = 8
/** Who asks much is a matter of the last second or two. */
const WORK_HALF_LIFE_MS = 1000
/** Refusals of a tick that a thread makes in passing: at 20 µs each, a twelfth of its time. */
const PROMPT_REFUSALS = 200
/** Turns without a refusal that end an episode, so that one that comes and goes is one in the log. */
const EPISODE_END_MS = 2000

export function createAdmission(targetDelayMs: number, events: AdmissionEvents): Admission {
  const work = new DecayingSketch(WORK_HALF_LIFE_MS)
  let state = CALM
  let now = performance.now()
  let isWatching = false
  let users = 0
  let total = 0

  let underWay = 0
  let answered = 0
  let rate = 0
  let readingMs = 0
  let requestsBefore = 0
  let hasHeavy = false
  let sampled = 0

  let hasTicked = false
  let waiting = 0
  let letInNow = 0
  let beginningRate = 0

  const refused: Record<ShedReason, number> = { delay: 0, heavy_address: 0 }
  let episode: { since: number; refusedAt: number; turnedAway: number } | undefined

  const delayMs = () => Math.max(readingMs, expectedDelayMs(underWay, rate))
  const pressure = () => delayMs() / targetDelayMs
  /** Of those that begin something new. */
  const waitMs = () => expectedDelayMs(waiting, beginningRate)
  const pressureAtBeginning = () => Math.max(pressure(), beginningPressure(waitMs(), targetDelayMs))

  function lookAtUsers(): void {
    total = work.total(now)
    const { users: known, largest } = work.profile(Math.max(1, total / 1000), now)
    users = known
    hasHeavy = isHeavy(largest, total, users)
  }

  const keyOf = (address: string) => sketchKey(countedAddress(address))

  function report(): void {
    const count = refused.delay + refused.heavy_address
    if (count > 0) {
      if (!episode) {
        episode = { since: now, refusedAt: now, turnedAway: 0 }
        events.begun({ delayMs: Math.round(Math.max(delayMs(), waitMs())), inFlight: underWay + waiting })
      }
      episode.refusedAt = now
      episode.turnedAway += count
      for (const reason of ['delay', 'heavy_address'] as const) {
        if (refused[reason] > 0) events.turnedAway(reason, refused[reason])
        refused[reason] = 0
      }
    } else if (episode && now - episode.refusedAt > EPISODE_END_MS) {
      const { since, refusedAt, turnedAway } = episode
      episode = undefined
      events.ended({ seconds: Math.round((refusedAt - since) / 100) / 10, turnedAway })
    }
  }

  return {
    get isOverloaded() {
      return state.isOverloaded
    },
    get isWatching() {
      return isWatching
    },
    isSample() {
      sampled = (sampled + 1) % SAMPLING
      return sampled === 0
    },
    saw: (address) => work.add(keyOf(address), SAMPLING, now),
    judge(resource, address) {
      if (!state.isOverloaded) return undefined
      const key = keyOf(address)
      work.add(key, 1, now)
      const heavy = hasHeavy && isHeavy(work.amount(key, now), total, users)
      const current = WORK_CLASS[resource] === 'beginning' ? pressureAtBeginning() : pressure()
      if (!isTurnedAway(current, resource, heavy)) return undefined
      const reason = heavy ? 'heavy_address' : 'delay'
      refused[reason]++
      return {
        reason,
        retryAfterSeconds: retryAfterSeconds(episode ? now - episode.since : 0, Math.random()),
        isLate: heavy || refused.delay > PROMPT_REFUSALS,
      }
    },
    yields(address) {
      if (!hasHeavy) return false
      const key = keyOf(address)
      if (!isHeavy(work.amount(key, now), total, users)) return false
      work.add(key, WAITED, now)
      return true
    },
    get hasQueue() {
      return waiting > 0 || (hasTicked && pressure() > QUEUED)
    },
    held() {
      waiting++
    },
    letIn() {
      waiting--
      letInNow++
    },
    began() {
      underWay++
    },
    ended() {
      underWay--
      answered++
    },
    paused() {
      underWay--
    },
    resumed() {
      underWay++
    },
    tick(at, requests, utilization) {
      readingMs = readingDelayMs(Math.max(0, at - now - TICK_MS), requests - requestsBefore)
      requestsBefore = requests
      now = at
      rate = nextRate(rate, answered)
      answered = 0
      beginningRate = nextRate(beginningRate, letInNow)
      letInNow = 0
      hasTicked = true
      const current = pressureAtBeginning()
      state = nextState(state, current)
      isWatching = state.isOverloaded || utilization > BUSY || current > (isWatching ? WATCHED / 2 : WATCHED)
      if (isWatching) lookAtUsers()
      else hasHeavy = false
      report()
    },
  }
}
