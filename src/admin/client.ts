/**
 * The typed client of the Admin API: the console and the remote command line use it.
 *
 * Its types come from the descriptions; at run time it needs only their methods and paths.
 */

import type { z } from 'zod/v4'
import type { ErrorBody } from './admin-errors.ts'
import type { OPERATIONS } from './endpoints.ts'

type Operations = typeof OPERATIONS
export type OperationId = keyof Operations
type Given<S, K extends string> = S extends z.ZodType ? { [N in K]: z.input<S> } : { [N in K]?: undefined }
/** Parameters, query and body of an operation, as far as it has them. */
export type Input<I extends OperationId> = Given<Operations[I]['params'], 'params'> &
  Partial<Given<Operations[I]['query'], 'query'>> &
  Given<Operations[I]['body'], 'body'>
export type Output<I extends OperationId> =
  NonNullable<Operations[I]['reply']['schema']> extends z.ZodType
    ? z.output<NonNullable<Operations[I]['reply']['schema']>>
    : undefined

export type Routes = Readonly<Record<OperationId, readonly [method: string, path: string]>>

export interface Page<T> {
  body: T
  status: number
  /** Path and query of the next page, below the base path. */
  next: string | undefined
  /** The search was cut off; the next page continues it. */
  isCut: boolean
}

/** A refusal by the service; `message` is its sentence. */
export class AdminApiError extends Error {
  readonly status: number
  readonly body: Partial<ErrorBody>
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, body: Partial<ErrorBody>, retryAfterSeconds?: number) {
    super(body.message ?? `the service answered ${status}`)
    this.name = 'AdminApiError'
    this.status = status
    this.body = body
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** Such as the sign-in page of a proxy, or an answer that was cut off. */
const NOT_OF_SERVICE =
  'what answered is not this service, perhaps a proxy in front of it; whether it was done is not known: check before you try again'

/** The act waits for another person; `id` names the request. */
export class ApprovalRequested extends Error {
  readonly id: string

  constructor(id: string) {
    super(`asked for approval: another person decides request ${id}`)
    this.name = 'ApprovalRequested'
    this.id = id
  }
}

interface AdminClientOptions {
  routes: Routes
  /** The absolute URL of the base path. */
  baseUrl: string
  token(): string | undefined
  fetch: typeof fetch
}

export class AdminClient {
  readonly #options: AdminClientOptions
  /** Without a slash at its end. */
  readonly #baseUrl: string

  constructor(options: AdminClientOptions) {
    this.#options = options
    this.#baseUrl = options.baseUrl.replace(/\/+$/, '')
  }

  /**
   * @param approvalReason why another person should approve the act, where that is needed
   * @throws ApprovalRequested, AdminApiError; TypeError when the service cannot be reached
   */
  async call<I extends OperationId>(id: I, input: Input<I>, approvalReason?: string): Promise<Output<I>> {
    return (await this.page(id, input, approvalReason)).body
  }

  async page<I extends OperationId>(id: I, input: Input<I>, approvalReason?: string): Promise<Page<Output<I>>> {
    const { method, path, body } = this.#request(id, input as Loose)
    return this.#send(method, path, body, approvalReason) as Promise<Page<Output<I>>>
  }

  /** @param next of the page before */
  follow<I extends OperationId>(_id: I, next: string): Promise<Page<Output<I>>> {
    return this.#send('GET', next, undefined) as Promise<Page<Output<I>>>
  }

  /** The lines of a streamed reply. @throws AdminApiError also for a page of a proxy, which would be saved as an export */
  async *lines<I extends OperationId>(id: I, input: Input<I>): AsyncGenerator<string> {
    const { method, path, body } = this.#request(id, input as Loose)
    const response = await this.#fetch(method, path, body)
    if (!response.headers.get('content-type')?.includes('ndjson'))
      throw new AdminApiError(response.status, { message: NOT_OF_SERVICE })
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
    if (rest !== '') yield rest
  }

  #request(id: OperationId, { params = {}, query = {}, body }: Loose) {
    const [method, template] = this.#options.routes[id]
    const path = template.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])))
    const given = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value))
    const search = given.toString()
    return { method, path: search === '' ? path : `${path}?${search}`, body }
  }

  async #send(method: string, path: string, sent: unknown, reason?: string): Promise<Page<unknown>> {
    const response = await this.#fetch(method, path, sent, reason)
    const text = await response.text()
    const link = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
    // The service names its own external URL, which may differ from the one that is asked here.
    const next = link && path.split('?', 1)[0] + new URL(link).search
    const isCut = response.headers.get('search-complete') === 'false'
    const waiting = /\/approvals\/([\w-]+)$/.exec(response.headers.get('location') ?? '')?.[1]
    if (response.status === 202 && waiting !== undefined) throw new ApprovalRequested(waiting)
    // A search that was cut off before it found a row.
    if (!response.ok) return { status: response.status, body: [], next, isCut }
    return { status: response.status, body: bodyOf(response, text), next, isCut }
  }

  async #fetch(method: string, path: string, sent: unknown, reason?: string): Promise<Response> {
    const token = this.#options.token()
    const response = await this.#options.fetch(`${this.#baseUrl}${path}`, {
      method,
      // A redirect would carry the password or the token elsewhere.
      redirect: 'error',
      headers: {
        accept: 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(sent !== undefined && { 'content-type': 'application/json' }),
        ...(reason !== undefined && { 'approval-reason': encodeURIComponent(reason) }),
      },
      ...(sent !== undefined && { body: JSON.stringify(sent) }),
    })
    if (response.ok || response.headers.has('search-complete')) return response
    const body = (await response.json().catch(() => ({}))) as Partial<ErrorBody>
    const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
    throw new AdminApiError(response.status, body, Number.isFinite(seconds) ? seconds : undefined)
  }
}

/** Only 204 has no body, and no answer of the service is HTML. @throws AdminApiError for another one */
function bodyOf({ status, headers }: Response, text: string): unknown {
  const type = headers.get('content-type') ?? ''
  if (status === 204) return undefined
  try {
    if (type.includes('json')) return JSON.parse(text)
    if (text !== '' && !type.includes('html')) return text
  } catch {
    // Cut off.
  }
  throw new AdminApiError(status, { message: NOT_OF_SERVICE })
}

interface Loose {
  params?: Record<string, unknown> | undefined
  query?: Record<string, unknown> | undefined
  body?: unknown
}
