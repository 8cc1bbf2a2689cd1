/** One request in a front: its client, resource, start and deadline, and what a busy or broken server says to it. */

import type { AcmeApplication } from '../acme/application.ts'
import type { AcmeExchange } from '../acme/endpoint.ts'
import { type EffectiveClient, type HttpRequest, requestIdFor } from '../http/http-message.ts'
import type { WaitingRequest } from '../overload/overload-control.ts'
import { PRESSURE_RETRY_AFTER, type RefusingTier } from '../services/shared-state.ts'
import { BatcherFull } from '../shared/lib/batcher.ts'
import { TooManyWaiting } from '../shared/lib/caching.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { ResourceMatch, ResourceName } from '../shared/protocol/urls.ts'

const PROBES = new Set(['/livez', '/healthz', '/readyz'])

/** @param localPath without the path of the external URL */
export const isProbe = (localPath: string): boolean => PROBES.has(localPath)

export class Exchange implements AcmeExchange, WaitingRequest {
  readonly http: HttpRequest
  readonly now = new Date()
  readonly startedAt = performance.now()
  readonly requestId: string
  /** Without the path of the external URL. */
  readonly localPath: string
  /** The client's address, read behind trusted proxies. */
  readonly address: string
  readonly scheme: 'http' | 'https'
  readonly fromBrowser: boolean
  accountId: string | undefined
  orderId: string | undefined
  refusal: Problem | undefined
  /** The metrics label; `none` until the request is routed. */
  resource = 'none'
  readonly #matchPath: AcmeApplication['match']
  /** False until the path is looked up. */
  #match: ResourceMatch | undefined | false = false

  constructor(
    { http, localPath }: { http: HttpRequest; localPath: string },
    { address, scheme }: EffectiveClient,
    matchPath: AcmeApplication['match'],
  ) {
    this.http = http
    this.localPath = localPath
    this.requestId = requestIdFor(http.header('x-request-id'))
    this.address = address
    this.scheme = scheme
    this.fromBrowser = http.header('origin') !== undefined
    this.#matchPath = matchPath
  }

  get match(): ResourceMatch | undefined {
    if (this.#match === false) this.#match = this.#matchPath(this.http.path)
    return this.#match
  }

  get target(): ResourceName | undefined {
    return this.match?.resource
  }

  get isProbe(): boolean {
    return isProbe(this.localPath)
  }

  get isGone(): boolean {
    return this.http.isOver
  }
}

/** Answers requests that exceed `server.timeout`. Their work continues, but its result is dropped. */
export interface Deadlines {
  /**
   * @returns the result of `work`
   * @throws Problem 503 when `work` takes too long, counted from `startedAt` (`performance.now()`)
   */
  within<T>(work: Promise<T>, startedAt: number): Promise<T>
}

/** One shared timer: a timer for each request costs more than all other work here. */
const LOOK_MS = 250
/** A poll waits up to a second on purpose, so it must pass a limit of one second. */
const GRACE_MS = 500

export function createDeadlines(timeoutSeconds: number): Deadlines {
  const limitMs = timeoutSeconds * 1000 + GRACE_MS
  const waiting = new Set<{ startedAt: number; giveUp(error: Problem): void }>()

  function look(): void {
    const before = performance.now() - limitMs
    for (const entry of waiting) {
      if (entry.startedAt > before) continue
      waiting.delete(entry)
      entry.giveUp(busy(`the request took longer than ${timeoutSeconds} seconds; try again`, UNAVAILABLE_RETRY_SECONDS))
    }
  }
  setInterval(look, LOOK_MS).unref()

  return {
    within: (work, startedAt) =>
      new Promise((resolve, reject) => {
        const entry = { startedAt, giveUp: reject }
        waiting.add(entry)
        work.then(
          (result) => {
            waiting.delete(entry)
            resolve(result)
          },
          (error) => {
            waiting.delete(entry)
            reject(error)
          },
        )
      }),
  }
}

/** A full batcher drains within a second; an unreachable database takes longer to return. */
const BUSY_RETRY_SECONDS = 1
const UNAVAILABLE_RETRY_SECONDS = 5

/** The head of a request may have 16 KiB. Ours need 300; a provider sends the browser back with a code that nothing bounds. */
export const MAX_URL_BYTES = 14_500
export const URL_TOO_LONG = new Problem('malformed', `a URL may have at most ${MAX_URL_BYTES} bytes`, { status: 414 })

export const PRESSURE_PROBLEMS = Object.fromEntries(
  Object.entries(PRESSURE_RETRY_AFTER).map(([tier, seconds]) => [
    tier,
    busy(`the server's database connections are under pressure; try again in ${seconds} seconds`, seconds),
  ]),
) as Record<RefusingTier, Problem>

/** Cached by Retry-After: creating an error costs more than rendering its reply. */
const overloadProblems: Problem[] = []

export function overloadProblem(seconds: number): Problem {
  overloadProblems[seconds] ??= busy(`the server has more to do than it can; try again in ${seconds} seconds`, seconds)
  return overloadProblems[seconds]
}

/** The layers below know what an error says of the server. */
export interface KnownErrors {
  /** Another thread has too much to do, or is starting. */
  isBusy(error: unknown): boolean
  /** Why the database does not do its work; undefined where the error says something else. */
  databaseTrouble(error: unknown): string | undefined
}

/** @returns undefined when the error is a fault to log, not a busy server */
export function knownProblem(error: unknown, { isBusy }: KnownErrors): Problem | undefined {
  if (error instanceof Problem) return error
  if (error instanceof BatcherFull || error instanceof TooManyWaiting || isBusy(error))
    return busy('the server is busy; try again soon', BUSY_RETRY_SECONDS)
  return undefined
}

/** Gives a sentence, a request id to quote, and perhaps Retry-After. The error itself goes only to the log. */
export function failureProblem(error: unknown, requestId: string, { databaseTrouble }: KnownErrors): Problem {
  const trouble = databaseTrouble(error)
  if (trouble !== undefined) return busy(`${trouble}; try again soon`, UNAVAILABLE_RETRY_SECONDS)
  return new Problem('serverInternal', `the server failed; quote request ${requestId} to its operator`)
}

function busy(detail: string, retryAfterSeconds: number): Problem {
  return new Problem('serverInternal', detail, { status: 503, retryAfterSeconds })
}
