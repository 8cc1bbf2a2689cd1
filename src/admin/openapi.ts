/** The OpenAPI 3.1 document, made from the descriptions of the endpoints. */

import * as z from 'zod/v4'
import { ADMIN_ERRORS, type AdminErrorCode } from '../domain/admin-error.ts'
import { ROLES } from '../domain/administrator.ts'
import { SCOPES } from '../domain/permissions.ts'
import type { AnyEndpoint } from './admin-endpoint.ts'
import { APPROVAL_REPLY, Approval } from './approvals/approval-store.ts'

interface DocumentOptions {
  version: string
  /** Absolute, of the base path. */
  baseUrl: string
}

type Json = Record<string, unknown>
type Schemas = Record<string, unknown>

export function openApiDocument(endpoints: readonly AnyEndpoint[], { version, baseUrl }: DocumentOptions): Json {
  const schemas: Schemas = { Error: ERROR }
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    const path = endpoint.path === '' ? '/' : endpoint.path
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint, schemas) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Chancery Admin API', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: baseUrl }],
    security: [{ bearer: [] }],
    tags: [...new Set(endpoints.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } }, schemas },
  }
}

function operation(endpoint: AnyEndpoint, schemas: Schemas): Json {
  const { id, tag, summary, roles, permission, scope, body, bodyIsOptional, reply, audit, recentSignIn, approval } =
    endpoint
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(roles === 'none' ? { security: [] } : { 'x-permission': permission, 'x-roles': roles }),
    ...(scope && { 'x-registrar': SCOPES[scope] }),
    ...(audit && { 'x-audit-action': audit }),
    ...(recentSignIn && { 'x-recent-sign-in': true }),
    ...(approval && { 'x-approval': true }),
    parameters: [...parameters('path', endpoint.params, schemas), ...parameters('query', endpoint.query, schemas)],
    ...(body && {
      requestBody: {
        required: !bodyIsOptional,
        content: { 'application/json': { schema: schemaOf(body, 'input', schemas) } },
      },
    }),
    responses: {
      [reply.status]: { ...success(reply, schemas), ...(isSearch(endpoint) && { headers: SEARCH_HEADERS }) },
      ...(reply.orStatus && { [reply.orStatus]: success({ ...reply, status: reply.orStatus }, schemas) }),
      ...(approval && { 202: success(replyOrRequest(reply), schemas) }),
      ...errorResponses(errorsOf(endpoint)),
    },
  }
}

/** 202: the act waits for another person, or the job continues. */
function replyOrRequest({ orStatus, schema }: AnyEndpoint['reply']): AnyEndpoint['reply'] {
  if (!orStatus || !schema) return APPROVAL_REPLY
  return { status: 202, schema: z.union([schema, Approval]) }
}

/** Several codes may have one status. */
function errorResponses(codes: readonly AdminErrorCode[]): Json {
  const statuses = [...new Set(codes.map((code) => ADMIN_ERRORS[code]))]
  return Object.fromEntries(
    statuses.map((status) => {
      const ofStatus = codes.filter((code) => ADMIN_ERRORS[code] === status)
      return [status, ERROR_RESPONSE(ofStatus.join(' or '))]
    }),
  )
}

function success({ status, schema, contentType = 'application/json' }: AnyEndpoint['reply'], schemas: Schemas): Json {
  const description = DESCRIPTIONS[status]
  if (status === 204) return { description }
  return {
    description,
    content: { [contentType]: { schema: schema ? schemaOf(schema, 'output', schemas) : { type: 'string' } } },
  }
}

const DESCRIPTIONS = { 200: 'Done', 201: 'Made', 202: 'Begun', 204: 'Done, without a body' }

/** Errors that follow from the description, and those that it names. */
export function errorsOf(endpoint: AnyEndpoint): AdminErrorCode[] {
  const { roles, needsSession, params, query, body, recentSignIn, approval, errors = [] } = endpoint
  const codes = new Set<AdminErrorCode>(errors)
  if (query || body || !params) codes.add('invalid_request')
  if (roles !== 'none') codes.add('unauthorized')
  if (roles !== 'none' && (needsSession || roles.length < ROLES.length)) codes.add('forbidden')
  if (recentSignIn) codes.add('sign_in_again')
  if (approval) codes.add('approval_needed').add('conflict')
  if (params) codes.add('not_found')
  if (isSearch(endpoint)) codes.add('unavailable')
  return [...codes].sort((a, b) => ADMIN_ERRORS[a] - ADMIN_ERRORS[b])
}

/** A list whose search may be cut off (admin/pages.ts). */
const isSearch = ({ query }: AnyEndpoint) =>
  query instanceof z.ZodObject && 'cursor' in query.shape && 'offset' in query.shape

const SEARCH_HEADERS = {
  Link: { description: 'With rel="next" where the list has more rows.', schema: { type: 'string' } },
  'Search-Complete': {
    description:
      '`false` when the search was cut off after 2 seconds: rows may be missing, and Link leads to the next ones. Otherwise absent. A search that has found nothing by then is 503, with the same headers.',
    schema: { const: 'false' },
  },
}

const ERROR = {
  type: 'object',
  required: ['error', 'message', 'type', 'detail', 'status', 'request_id'],
  properties: {
    error: { enum: Object.keys(ADMIN_ERRORS) },
    message: { type: 'string', description: 'An English sentence.' },
    type: { type: 'string', format: 'uri', description: 'As in RFC 9457.' },
    detail: { type: 'string', description: 'The same as `message`.' },
    status: { type: 'integer' },
    request_id: { type: 'string' },
    fields: {
      type: 'array',
      description: 'Every wrong member or parameter, at most 100.',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
}

const ERROR_RESPONSE = (description: string): Json => ({
  description,
  content: { 'application/problem+json': { schema: reference('Error') } },
})

function parameters(where: 'path' | 'query', schema: z.ZodType | undefined, schemas: Schemas): Json[] {
  if (!schema) return []
  const { properties = {}, required = [] } = schemaOf(schema, 'input', schemas) as {
    properties?: Record<string, Json>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    schema: property,
    ...(description !== undefined && { description }),
  }))
}

/** Schemas with an `id` become components; a schema that has one itself is named by it. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', schemas: Schemas): Json {
  const { $schema: _, $defs = {}, id, ...made } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json
  for (const [name, definition] of Object.entries($defs as Schemas)) schemas[name] = inComponents(definition)
  const own = inComponents(made) as Json
  if (typeof id !== 'string') return own
  schemas[id] = own
  return reference(id)
}

const reference = (name: string): Json => ({ $ref: `#/components/schemas/${name}` })

function inComponents(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(inComponents)
  if (typeof node !== 'object' || node === null) return node
  const { id, $ref, ...members } = node as Json
  if (typeof $ref === 'string') return reference($ref.replace('#/$defs/', ''))
  const rest = Object.entries(members).map(([name, value]) => [name, inComponents(value)])
  // The keyword `id` is a text; a member of `properties` is a schema.
  return { ...(typeof id === 'object' && { id: inComponents(id) }), ...Object.fromEntries(rest) }
}
