/** One request in a front: its client, its resource, and its start time. */

import type { AcmeApplication } from '../acme/application.ts'
import type { AcmeExchange } from '../acme/endpoint.ts'
import { requestIdFor } from '../http/common-headers.ts'
import type { HttpRequest } from '../http/message.ts'
import type { WaitingRequest } from '../overload/overload-control.ts'
import type { Problem } from '../shared/protocol/problem.ts'
import type { ResourceMatch, ResourceName } from '../shared/protocol/urls.ts'

const PROBES = new Set(['/livez', '/healthz', '/readyz'])

/** @param localPath without the path of the external URL */
export const isProbe = (localPath: string): boolean => PROBES.has(localPath)

export interface EffectiveClient {
  address: string
  scheme: 'http' | 'https'
}

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
