/** A service that is administered from here: its client, and its errors as sentences. */

import { AdminApiError, AdminClient, type OperationId, type Routes } from '../../admin/client.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import {
  isGiven,
  option,
  optional,
  type Raw,
  readOptions,
  UsageError,
  type Values,
} from '../../shared/command-line/options.ts'
import { CommandError, text } from '../values.ts'
import { tokenFor } from './session-file.ts'

function httpUrl(value: string): string {
  const { protocol, href } = new URL(value)
  if (!/^https?:$/.test(protocol)) throw new Error('takes a URL such as https://ca.example')
  return href.replace(/\/$/, '')
}

export const REMOTE_OPTIONS = {
  server: optional('URL of the service, with the path of server.external_url', httpUrl),
  'base-path': option('Its admin_api.base_path', text, '/api'),
  json: isGiven('Print JSON'),
  debug: isGiven('Print stack traces of errors'),
}
type RemoteOptions = Values<typeof REMOTE_OPTIONS>

const ADVICE = 'log in with: chancery --server URL login'

/** What a command gives to an operation, checked by the service. */
export interface Given {
  params?: Readonly<Record<string, string>>
  query?: Readonly<Record<string, unknown>>
  body?: unknown
}

export interface Reply {
  body: unknown
  next: string | undefined
}

export class Connection {
  readonly baseUrl: string
  readonly options: RemoteOptions
  readonly #client: AdminClient

  /** @throws UsageError when it says no service */
  constructor(raw: Raw) {
    this.options = readOptions(REMOTE_OPTIONS, raw)
    const { server, 'base-path': basePath } = this.options
    if (server === undefined) throw new UsageError('--server takes a URL')
    this.baseUrl = `${server}${basePath.replace(/\/$/, '')}`
    const routes = Object.fromEntries(ENDPOINTS.map(({ id, method, path }) => [id, [method, path]]))
    this.#client = new AdminClient({
      ...{ routes: routes as unknown as Routes, baseUrl: this.baseUrl, fetch },
      token: () => tokenFor(this.baseUrl),
    })
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

  async #told<T>(id: string, asked: Promise<T>): Promise<T> {
    try {
      return await asked
    } catch (error) {
      if (error instanceof AdminApiError)
        throw new CommandError(error.status === 401 && id !== 'login' ? `${error.message}; ${ADVICE}` : error.message)
      const { cause, message } = error as Error & { cause?: { message?: string; code?: string } }
      throw new CommandError(`${this.baseUrl} cannot be reached: ${cause?.message || cause?.code || message}`)
    }
  }
}
