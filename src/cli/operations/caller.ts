/** Calls operations of the Admin API, wherever it is; its refusals become sentences for the operator. */

import { AdminApiError, AdminClient, type OperationId, type Routes } from '../../admin/client.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { CommandError } from '../values.ts'
import { Refusal } from './refusal.ts'
import { NAMED } from './words.ts'

/** What a command gives to an operation, checked there. */
export interface Given {
  params?: Readonly<Record<string, string>>
  query?: Readonly<Record<string, unknown>>
  body?: unknown
}

export interface Reply {
  body: unknown
  next: string | undefined
  isCut: boolean
}

export interface CallerOptions {
  /** Of the base path, without a slash at its end. */
  baseUrl: string
  fetch: typeof fetch
  token(): string | undefined
  /** What to advise whom the service does not know. */
  advice?: string
  /** For an error that is no reply. */
  explain(error: Error): Error
}

export class OperationCaller {
  readonly baseUrl: string
  readonly #options: CallerOptions
  readonly #client: AdminClient

  constructor(options: CallerOptions) {
    const { baseUrl, fetch, token } = options
    this.baseUrl = baseUrl
    this.#options = options
    const routes = Object.fromEntries(ENDPOINTS.map(({ id, method, path }) => [id, [method, path]]))
    this.#client = new AdminClient({ routes: routes as unknown as Routes, baseUrl, fetch, token })
  }

  page(id: string, given: Given): Promise<Reply> {
    return this.#told(id, this.#client.page(id as OperationId, given as never))
  }

  follow(id: string, next: string): Promise<Reply> {
    return this.#told(id, this.#client.follow(id as OperationId, next))
  }

  async *lines(id: string, given: Given): AsyncGenerator<string> {
    const lines = this.#client.lines(id as OperationId, given as never)
    for (;;) {
      const { done, value } = await this.#told(id, lines.next())
      if (done) return
      yield value
    }
  }

  /** All rows of a list, page after page. */
  async *rows(id: string, given: Given): AsyncGenerator<Record<string, unknown>> {
    let page = await this.page(id, given)
    for (;;) {
      yield* page.body as Record<string, unknown>[]
      if (page.next === undefined) return
      page = await this.follow(id, page.next)
    }
  }

  /** The id of what has a name (words.ts), for a name or an id. @throws CommandError */
  async idOf(parameter: string, value: string): Promise<string> {
    const { list, filter, member, what } = NAMED[parameter] ?? {}
    const isId = isUuid(value.toLowerCase())
    if (list === undefined || (isId && filter === undefined)) return value
    // A name may look like an id.
    for await (const row of this.rows(list, filter === undefined ? {} : { query: { [filter]: value } }))
      if (filter !== undefined || row[member as string] === value) return String(row['id'])
    if (isId) return value
    throw new CommandError(`there is no ${what} ${JSON.stringify(value)}`)
  }

  async #told<T>(id: string, asked: Promise<T>): Promise<T> {
    const { advice, explain } = this.#options
    try {
      return await asked
    } catch (error) {
      if (!(error instanceof AdminApiError)) throw explain(error as Error)
      const { status, message } = error
      const advised = advice !== undefined && status === 401 && id !== 'login' ? `${message}; ${advice}` : message
      throw new Refusal(advised, { status, fields: error.body.fields })
    }
  }
}
