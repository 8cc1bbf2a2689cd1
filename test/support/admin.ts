/** Administrators of a test service, and requests to its Admin API. */

import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import { HASHING_HERE, PasswordHasher } from '../../src/admin/users/passwords.ts'
import { createUser } from '../../src/admin/users/users.ts'
import type { Config } from '../../src/config/schema.ts'
import type { Role } from '../../src/domain/administrator.ts'
import { requireAuditKey } from '../../src/settings/admin-settings.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import type { TestDatabase } from './database.ts'

export const TOKEN_SECRET = 'a secret of the tests, 32 bytes and more'

/**
 * The section of the configuration; `more` is laid over it. There is one admin thread however many fronts there are, so
 * one front is enough.
 */
export const adminConfig = (more: Record<string, unknown> = {}) => ({
  server: { workers: 1 },
  admin_api: {
    enabled: true,
    token_secret: TOKEN_SECRET,
    initial_admin_email: 'admin@example.com',
    ...more,
  },
})

export interface AdminReplyText {
  status: number
  headers: Headers
  text: string
  /** Undefined for an empty body. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into replies of any shape
  json: any
}

export interface AdminClient {
  token: string
  get(path: string): Promise<AdminReplyText>
  send(method: string, path: string, body?: unknown): Promise<AdminReplyText>
}

/** One request; `path` is below the base path. */
export async function adminRequest(
  baseUrl: string,
  method: string,
  path: string,
  { token, body, headers = {} }: { token?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<AdminReplyText> {
  const response = await fetch(`${baseUrl}/api${path}`, {
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') && !text.includes('\n')
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJson && text !== '' ? JSON.parse(text) : undefined,
  }
}

/** The path of the next page, from a reply's Link. */
export function nextPage({ headers }: AdminReplyText): string | undefined {
  const url = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  return url?.slice(url.indexOf('/api/') + '/api'.length)
}

/** The replies with all pages of a list, from this one on. */
export async function allPages(client: AdminClient, first: string): Promise<AdminReplyText[]> {
  const pages: AdminReplyText[] = []
  for (let path: string | undefined = first; path !== undefined; ) {
    const reply = await client.get(path)
    if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.text}`)
    pages.push(reply)
    path = nextPage(reply)
  }
  return pages
}

/** The rows on all pages of a list, from this one on. */
export const allRows = async (client: AdminClient, first: string) =>
  (await allPages(client, first)).flatMap(({ json }) => json)

/** Which members or parameters a refusal names. */
export const fieldsOf = ({ json }: AdminReplyText): string[] =>
  json.fields.map(({ field }: { field: string }) => field).sort()

/** Each body is refused with 400, and the member that is wrong is named. */
export async function assertNamed(
  send: (body: unknown) => Promise<AdminReplyText>,
  rows: readonly (readonly [body: unknown, field: string])[],
): Promise<void> {
  for (const [body, field] of rows) {
    const reply = await send(body)
    if (reply.status !== 400 || fieldsOf(reply).join() !== field)
      throw new Error(`${JSON.stringify(body)} is to be refused for its ${field}: ${reply.status} ${reply.text}`)
  }
}

export async function signIn(baseUrl: string, username: string, password: string): Promise<AdminClient> {
  const reply = await adminRequest(baseUrl, 'POST', '/auth/login', { body: { username, password } })
  if (reply.status !== 200) throw new Error(`login: ${reply.status} ${reply.text}`)
  return clientWith(baseUrl, reply.json.token)
}

export function clientWith(baseUrl: string, token: string): AdminClient {
  return {
    token,
    get: (path) => adminRequest(baseUrl, 'GET', path, { token }),
    send: (method, path, body) => adminRequest(baseUrl, method, path, { token, body }),
  }
}

const COMMAND_LINE = { userId: undefined, username: 'tests', role: 'admin', ipAddress: undefined } as const

/** Made as the command line does it. @returns the generated password */
export async function createAdministrator(
  database: TestDatabase,
  username: string,
  role: Role = 'admin',
  scope: readonly string[] = role === 'registrar' ? ['team'] : [],
): Promise<string> {
  return withAuditLog(database, async (audit) => {
    const resources = { audit, passwords: new PasswordHasher(HASHING_HERE), policy: { passwordLength: 20 } }
    const wanted = { username, email: `${username}@example.com`, role, scope }
    return (await createUser(resources, COMMAND_LINE, wanted)).password
  })
}

/** Under the key of the service. */
export async function withAuditLog<T>(database: TestDatabase, work: (audit: AuditLog) => Promise<T>): Promise<T> {
  const db = await openCheckedDatabase(settingsFor(database.connection, 1))
  try {
    const key = requireAuditKey({ admin_api: { audit_key_file: null, token_secret: TOKEN_SECRET } } as Config)
    return await work(new AuditLog(db, key))
  } finally {
    await db.end()
  }
}

/** A signed-in user of this role. */
export async function administrator(
  service: { baseUrl: string; database: TestDatabase },
  username: string,
  role: Role = 'admin',
  scope?: readonly string[],
): Promise<AdminClient> {
  return signIn(service.baseUrl, username, await createAdministrator(service.database, username, role, scope))
}
