/**
 * Finds the endpoint of a request, and gives the parameters of its path, its query and its body as values that fit the
 * description.
 */

import * as z from 'zod/v4'
import { AdminError, notFound } from '../domain/admin-error.ts'
import type { SentValues } from '../domain/approval.ts'
import { hasNul, parseJsonObject } from '../shared/lib/encoding.ts'
import type { AnyEndpoint } from './admin-endpoint.ts'
import { invalid } from './admin-errors.ts'
import type { AdminRequest } from './admin-message.ts'
import { line } from './schemas.ts'

interface RouteMatch {
  endpoint: AnyEndpoint
  params: Record<string, string>
}

interface Route {
  segments: readonly string[]
  byMethod: Map<string, AnyEndpoint>
}

export class Router {
  readonly #routes = new Map<string, Route>()

  constructor(endpoints: readonly AnyEndpoint[]) {
    for (const endpoint of endpoints)
      for (const path of [endpoint.path, ...(endpoint.aliases ?? [])]) this.#add(path, endpoint)
  }

  /** @throws AdminError not_found; method_not_allowed with the methods that are */
  match(method: string, path: string): RouteMatch {
    const given = segmentsOf(path)
    // A fixed segment wins over a parameter: `/certificates/bulk-revoke` is no serial number.
    const fitting = [...this.#routes.values()].filter(({ segments }) => fits(segments, given))
    fitting.sort((a, b) => parametersOf(a) - parametersOf(b))
    const [route] = fitting
    if (!route) throw notFound('resource')
    const endpoint = route.byMethod.get(method === 'HEAD' ? 'GET' : method)
    if (!endpoint) {
      const allow = [...route.byMethod.keys()]
      throw new AdminError('method_not_allowed', `${allow.join(' or ')} is allowed here`, { allow })
    }
    const params = route.segments.flatMap((segment, index) =>
      isParameter(segment) ? [[segment.slice(1, -1), given[index] as string]] : [],
    )
    return { endpoint, params: Object.fromEntries(params) }
  }

  #add(path: string, endpoint: AnyEndpoint): void {
    const pattern = path.replaceAll(/\{[^}]+\}/g, '{}')
    const route = this.#routes.get(pattern) ?? { segments: path.split('/'), byMethod: new Map() }
    if (route.byMethod.has(endpoint.method)) throw new Error(`two endpoints for ${endpoint.method} ${path}`)
    route.byMethod.set(endpoint.method, endpoint)
    this.#routes.set(pattern, route)
  }
}

const isParameter = (segment: string) => segment.startsWith('{')
const parametersOf = ({ segments }: Route) => segments.filter(isParameter).length

function fits(segments: readonly string[], given: readonly string[]): boolean {
  return (
    segments.length === given.length &&
    segments.every((segment, index) => (isParameter(segment) ? given[index] !== '' : segment === given[index]))
  )
}

/** Decoded; the first is empty. A slash at the end counts for nothing. */
export const segmentsOf = (path: string): string[] => path.replace(/\/$/, '').split('/').map(decode)

/** A broken escape fits no route. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return '\0'
  }
}

/** Bytes of a body without a token: the code of a provider, which no specification bounds. */
const MOST_OF_A_STRANGER = 16 * 1024
/** The largest bodies of an auditor are a CSR and a CSR profile. */
const MOST_OF_AN_AUDITOR = 64 * 1024
/** 10,000 serial numbers are 430 KB. Four times as much, once allowed, took the thread two seconds. */
const MOST_OF_OTHERS = 1024 * 1024

/** @throws AdminError with every wrong member */
export function readRequest(endpoint: AnyEndpoint, { params, query, body }: SentValues) {
  return {
    params: parse(endpoint.params, params, 'path') as undefined,
    query: parse(endpoint.query, readQuery(query), 'query') as undefined,
    body: parse(endpoint.body, body, 'body') as undefined,
  }
}

/** A body without a media type counts as missing, as existing clients send it. */
const isMissing = ({ body, contentType }: AdminRequest) => body.length === 0 || contentType === undefined

/** @throws AdminError invalid_request, unsupported_media_type, too_large */
export function requireBody({ body: schema, bodyIsOptional, roles }: AnyEndpoint, request: AdminRequest): void {
  if (!schema) return
  if (isMissing(request)) {
    if (bodyIsOptional) return
    throw new AdminError('invalid_request', 'a JSON object is needed as the body, with Content-Type: application/json')
  }
  if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(request.contentType ?? ''))
    throw new AdminError('unsupported_media_type', 'the body must be application/json')
  const most = mostOf(roles)
  if (request.body.length > most) throw new AdminError('too_large', `the body may have at most ${most} bytes`)
}

function mostOf(roles: AnyEndpoint['roles']): number {
  if (roles === 'none') return MOST_OF_A_STRANGER
  return roles.includes('auditor') ? MOST_OF_AN_AUDITOR : MOST_OF_OTHERS
}

export function readBody({ body: schema }: AnyEndpoint, request: AdminRequest): unknown {
  if (!schema) return undefined
  if (isMissing(request)) return {}
  const { body } = request
  const value = parseJsonObject(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  if (typeof value === 'string') throw new AdminError('invalid_request', `the body ${value}`)
  return value
}

/** @throws AdminError when a parameter is given twice */
function readQuery(query: string): Record<string, string> {
  const values: Record<string, string> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (Object.hasOwn(values, name))
      throw new AdminError('invalid_request', `the query has '${name.slice(0, 64)}' twice`)
    values[name] = value
  }
  return values
}

const NO_QUERY = z.strictObject({})

function parse(schema: z.ZodType | undefined, value: unknown, where: 'path' | 'query' | 'body'): unknown {
  if (!schema && where !== 'query') return undefined
  const expected = schema ?? NO_QUERY
  if (where !== 'path' && hasNul(value))
    throw new AdminError('invalid_request', `the ${where} has the character U+0000`)
  // Without the input, a wrong member would look like a missing one.
  const parsed = expected.safeParse(value, { reportInput: true })
  if (parsed.success) return parsed.data
  // No object has an id that is none.
  if (where === 'path') throw new AdminError('not_found', 'there is no such resource')
  throw invalid(where, parsed.error, expected)
}

const MOST_OF_A_REASON = 500

/** The header Approval-Reason, whose UTF-8 is percent-encoded. @returns undefined without one */
export function readReason(header: string | undefined): string | undefined {
  if (header === undefined || header === '') return undefined
  const parsed = line(MOST_OF_A_REASON).safeParse(decodedReason(header))
  if (parsed.success) return parsed.data
  throw new AdminError('invalid_request', `Approval-Reason must be a line of 1 to ${MOST_OF_A_REASON} characters`)
}

function decodedReason(header: string): string {
  try {
    return decodeURIComponent(header)
  } catch {
    return ''
  }
}
