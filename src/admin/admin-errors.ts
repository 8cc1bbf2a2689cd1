/** Error replies of the Admin API. */

import type { z } from 'zod/v4'
import { ADMIN_ERRORS, AdminError, type AdminErrorCode, type FieldError } from '../domain/admin-error.ts'
import type { Header } from '../http/http-message.ts'
import { nearest } from '../shared/config-file/suggest.ts'
import { sentenceOf } from '../shared/lib/bounded.ts'
import type { Problem } from '../shared/protocol/problem.ts'
import type { AdminReply } from './admin-message.ts'

const TYPE_PREFIX = 'urn:chancery:admin:error:'

/** Both shapes: `error` and `message`, and a problem document (RFC 9457). */
export interface ErrorBody {
  error: AdminErrorCode
  message: string
  type: string
  detail: string
  status: number
  request_id: string
  fields?: readonly FieldError[]
}

export function errorReply(error: AdminError, requestId: string, resource: string): AdminReply {
  const { code, message, status, options } = error
  const { fields, retryAfterSeconds, allow } = options
  const body: ErrorBody = {
    error: code,
    message,
    type: TYPE_PREFIX + code,
    detail: message,
    status,
    request_id: requestId,
    ...(fields && { fields }),
  }
  const headers: Header[] = [['Content-Type', 'application/problem+json']]
  if (code === 'unauthorized') headers.push(['WWW-Authenticate', 'Bearer'])
  if (retryAfterSeconds !== undefined) headers.push(['Retry-After', String(Math.ceil(retryAfterSeconds))])
  if (allow) headers.push(['Allow', allow.join(', ')])
  return { status, headers, body: JSON.stringify(body), resource }
}

/** The Admin API's form of a refusal. */
export function asAdminError({ status, message, options: { retryAfterSeconds } }: Problem): AdminError {
  const codes = Object.keys(ADMIN_ERRORS) as AdminErrorCode[]
  const code = codes.find((one) => ADMIN_ERRORS[one] === status) ?? 'invalid_request'
  return new AdminError(code, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
}

/** A body of the largest size has room for a million wrong entries. */
const MOST_FIELDS = 100

/** Every wrong field in one reply, as far as somebody reads it. @param where such as `body` or `query` */
export function invalid(where: string, { issues }: z.ZodError, schema: z.ZodType): AdminError {
  const found = issues.slice(0, MOST_FIELDS).flatMap((issue) => fieldErrors(issue, schema))
  return notRight(where, found.slice(0, MOST_FIELDS))
}

/** @param where such as `body` or `query` */
export function notRight(where: string, fields: readonly FieldError[]): AdminError {
  const sentence = fields.map(({ field, message }) => (field === '' ? message : `'${field}' ${message}`)).join('; ')
  return new AdminError('invalid_request', `the ${where} is not right: ${sentence}`, { fields })
}

type Issue = z.ZodError['issues'][number]

function fieldErrors(issue: Issue, schema: z.ZodType): FieldError[] {
  // A key of a table is a text of the client.
  const at = issue.path.map((part) => String(part).slice(0, 64))
  if (issue.code !== 'unrecognized_keys') return [{ field: at.join('.'), message: sentenceOf(issue) }]
  return issue.keys.slice(0, MOST_NAMED).map((key) => {
    const known = nearest(key.slice(0, 64), memberNames(schema, at))
    const field = [...at, key.slice(0, 64)].join('.')
    return { field, message: known === undefined ? 'is unknown' : `is unknown; did you mean '${known}'?` }
  })
}

const MOST_NAMED = 20

function memberNames(schema: z.ZodType, at: readonly string[]): readonly string[] {
  let node: unknown = schema
  for (const member of at) node = Object(unwrapped(node)).shape?.[member]
  const { shape, keyType } = Object(unwrapped(node))
  // A table whose keys are an enumeration.
  return keyType?.options ?? Object.keys(shape ?? {})
}

function unwrapped(node: unknown): unknown {
  let inner = node as { shape?: unknown; unwrap?: () => unknown } | undefined
  while (inner && !inner.shape && typeof inner.unwrap === 'function') inner = inner.unwrap() as typeof inner
  return inner
}
