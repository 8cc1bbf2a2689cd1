/** Calls operations of the Admin API, wherever it is; its refusals become sentences for the operator. */

import {
  AdminApiError,
  AdminClient,
  ApprovalRequested,
  type Input,
  type OperationId,
  type Output,
  type Page,
} from '../../admin/client.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { CommandError, Refusal } from '../values.ts'

interface AdminCallerOptions {
  /** It includes the base path, and has no slash at its end. */
  baseUrl: string
  fetch: typeof fetch
  token(): string | undefined
  approvalReason?: string | undefined
  /** Added to the refusal when the service does not know the caller. */
  advice?: string
  /** For an error that is no reply. */
  explain(error: Error): Error
}

type ListId = { [I in OperationId]: Output<I> extends readonly object[] ? I : never }[OperationId]
type RowOf<I extends OperationId> = Output<I> extends readonly (infer R)[] ? R : never

/** How the commands find the id of a thing by its name. */
interface NameLookup {
  /** The parameter in a sentence. */
  what: string
  list: ListId
  /** The query parameter that finds one name; without it, the list is read until the name comes. */
  filter?: string
  /** The member of a row with the name. */
  member: string
}

const LOOKUPS: Readonly<Record<string, NameLookup>> = {
  user_id: { what: 'user', list: 'listUsers', filter: 'username', member: 'username' },
  token_id: { what: 'API token', list: 'listTokens', member: 'name' },
  cred_id: { what: 'credential with the kid', list: 'listEabCredentials', filter: 'kid', member: 'kid' },
  identifier_id: {
    what: 'allowed identifier',
    list: 'listAllowedIdentifiers',
    filter: 'value',
    member: 'identifier_value',
  },
  profile_id: { what: 'CSR profile', list: 'listCsrProfiles', filter: 'name', member: 'name' },
}

const ROUTES = Object.fromEntries(ENDPOINTS.map(({ id, method, path }) => [id, [method, path] as const]))

export class AdminCaller {
  readonly baseUrl: string
  readonly #options: AdminCallerOptions
  readonly #client: AdminClient

  constructor(options: AdminCallerOptions) {
    const { baseUrl, fetch, token } = options
    this.baseUrl = baseUrl
    this.#options = options
    this.#client = new AdminClient({
      routes: ROUTES as never,
      baseUrl,
      fetch,
      token,
    })
  }

  async call<I extends OperationId>(id: I, input: Input<I>): Promise<Output<I>> {
    return (await this.page(id, input)).body
  }

  page<I extends OperationId>(id: I, input: Input<I>): Promise<Page<Output<I>>> {
    return this.#told(id, this.#client.page(id, input, this.#options.approvalReason))
  }

  async *lines<I extends OperationId>(id: I, input: Input<I>): AsyncGenerator<string> {
    const lines = this.#client.lines(id, input)
    for (;;) {
      const { done, value } = await this.#told(id, lines.next())
      if (done) return
      yield value
    }
  }

  /** All rows of a list, page after page. */
  async *rows<I extends ListId>(id: I, input: Input<I>): AsyncGenerator<RowOf<I>> {
    let page = await this.page(id, input)
    for (;;) {
      yield* page.body as RowOf<I>[]
      if (page.next === undefined) return
      page = await this.#told(id, this.#client.follow(id, page.next))
    }
  }

  /** Names of the path parameters of an operation. */
  parametersOf(id: OperationId): string[] {
    return [...(ROUTES[id]?.[1] ?? '').matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  }

  /** The id for the name or the id of what a path parameter names. @throws CommandError */
  async idOf(parameter: string, value: string): Promise<string> {
    const lookup = LOOKUPS[parameter]
    const isId = isUuid(value.toLowerCase())
    if (lookup === undefined || (isId && lookup.filter === undefined)) return value
    const { what, list, filter, member } = lookup
    // A name may look like an id.
    const query = filter === undefined ? {} : { [filter]: value }
    for await (const row of this.rows(list, { query })) {
      const { id, [member]: name } = row as Record<string, unknown>
      if (filter !== undefined || name === value) return String(id)
    }
    if (isId) return value
    throw new CommandError(`there is no ${what} ${JSON.stringify(value)}`)
  }

  async #told<T>(id: OperationId, asked: Promise<T>): Promise<T> {
    const { advice, explain } = this.#options
    try {
      return await asked
    } catch (error) {
      if (error instanceof ApprovalRequested)
        throw new CommandError(`${error.message}; see: approvals show ${error.id}`)
      if (!(error instanceof AdminApiError)) throw explain(error as Error)
      const { status, message, body } = error
      const howToAsk = status === 428 && advice !== undefined ? '; ask with --approval-reason' : ''
      const isUnknown = advice !== undefined && status === 401 && id !== 'login'
      throw new Refusal(isUnknown ? `${message}; ${advice}` : message + howToAsk, status, body.fields)
    }
  }
}
