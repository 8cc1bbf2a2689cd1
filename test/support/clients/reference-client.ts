/**
 * The calls of the reference server's own admin client (ACMEEH-admin 1.0.1), as that program makes
 * them. The program is Python and in no registry, so its requests are replayed from its source.
 */

export interface ReferenceClient {
  token: string | undefined
  /** @returns parsed JSON, undefined for 204. @throws RefusedByService as the client does */
  // biome-ignore lint/suspicious/noExplicitAny: replies of any shape
  request(method: string, path: string, more?: { json?: unknown; params?: Params }): Promise<any>
  /** Follows Link headers as they are, up to an empty page. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of any shape
  all(path: string, params?: Params): Promise<any[]>
  /** Reads NDJSON line by line. */
  export(path: string, json?: unknown): Promise<unknown[]>
}

export type Params = Readonly<Record<string, string | number>>

/** The client reads `detail` and `type`, when the content type contains `json`. */
export class RefusedByService extends Error {
  readonly status: number
  readonly type: string | undefined

  constructor(status: number, detail: string | undefined, type: string | undefined) {
    super(detail ?? '')
    this.status = status
    this.type = type
  }
}

const NEXT = /<([^>]+)>;\s?rel="next"/

export function referenceClient(serverUrl: string, prefix = '/api'): ReferenceClient {
  const client: ReferenceClient = {
    token: undefined,
    async request(method, path, { json, params = {} } = {}) {
      const response = await send(method, serverUrl + prefix + path + queryOf(params), json)
      return response.status === 204 ? undefined : response.json()
    },
    async all(path, params = {}) {
      // Its list_all asks the bare prefix first, and gives up when that is an error.
      await send('GET', serverUrl + prefix)
      const rows: unknown[] = []
      for (let url: string | undefined = serverUrl + prefix + path + queryOf(params); url !== undefined; ) {
        const response = await send('GET', url)
        const page = (await response.json()) as unknown[]
        if (page.length === 0) break
        rows.push(...page)
        url = NEXT.exec(response.headers.get('link') ?? '')?.[1]
      }
      return rows
    },
    async export(path, json) {
      const text = await (await send('POST', serverUrl + prefix + path, json)).text()
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as unknown)
    },
  }

  /** Without a body there is no content type either. */
  async function send(method: string, url: string, json?: unknown): Promise<Response> {
    const response = await fetch(url, {
      method,
      headers: {
        accept: 'application/json',
        ...(client.token !== undefined && { authorization: `Bearer ${client.token}` }),
        ...(json !== undefined && { 'content-type': 'application/json' }),
      },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    })
    if (response.ok) return response
    const isJson = response.headers.get('content-type')?.includes('json')
    const { detail, type } = (isJson ? await response.json() : {}) as { detail?: string; type?: string }
    throw new RefusedByService(response.status, detail, type)
  }

  return client
}

function queryOf(params: Params): string {
  const query = new URLSearchParams(
    Object.entries(params).map(([name, value]): [string, string] => [name, String(value)]),
  ).toString()
  return query === '' ? '' : `?${query}`
}
