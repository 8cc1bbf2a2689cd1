/** One request in a front: its client, its resource, its start time, and its deadline. */

import type { AcmeApplication } from '../acme/application.ts'
import type { AcmeExchange } from '../acme/endpoint.ts'
import type { EffectiveClient } from '../http/client-address.ts'
import { type HttpRequest, requestIdFor } from '../http/http-message.ts'
import type { WaitingRequest } from '../overload/overload-control.ts'
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
const RETRY_AFTER_SECONDS = 5

export function createDeadlines(timeoutSeconds: number): Deadlines {
  const limitMs = timeoutSeconds * 1000 + GRACE_MS
  const waiting = new Set<{ startedAt: number; giveUp(error: Problem): void }>()

  function look(): void {
    const before = performance.now() - limitMs
    for (const entry of waiting) {
      if (entry.startedAt > before) continue
      waiting.delete(entry)
      const detail = `the request took longer than ${timeoutSeconds} seconds; try again`
      entry.giveUp(new Problem('serverInternal', detail, { status: 503, retryAfterSeconds: RETRY_AFTER_SECONDS }))
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
