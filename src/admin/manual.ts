/** The manual of the Admin API, made from its OpenAPI document. */

import { ADMIN_ERRORS } from '../domain/admin-error.ts'
import { ROLES } from '../domain/administrator.ts'
import { PERMISSIONS, type Permission, rolesOf } from '../domain/permissions.ts'
import { ENDPOINTS } from './endpoints.ts'
import { openApiDocument } from './openapi.ts'

const INTRODUCTION = `# Admin API

\`npm run docs\` makes this page from the descriptions in \`src/admin\`. A running service has them as an
OpenAPI 3.1 document at \`GET {base_path}/openapi.json\`. Keys of its configuration: \`admin_api\` in
[configuration.md](configuration.md).

- **Paths** are below \`admin_api.base_path\` (\`/api\`), which is below the path of \`server.external_url\`.
- **Tokens.** \`POST /auth/login\` gives a token for \`Authorization: Bearer …\`. It ends after
  \`admin_api.token_expiry_seconds\`, by logout and by a new password. \`POST /tokens\` makes one for machines.
- **Roles.** \`admin\` may do everything, the other roles what the table below shows. A \`registrar\` has tags, its scope. It reaches
  only accounts with one of its tags and what belongs to them, and credentials with one of its tags; others do not exist for it (404).
- **Approval.** Where \`admin_api.approvals\` says so, an act with 428 among its errors needs another person: with a reason in the header
  \`Approval-Reason\` (UTF-8, percent-encoded) it answers 202 with the request, an object Approval.
- **Recent sign-in.** 403 \`sign_in_again\`: \`POST /auth/confirm\`, then once more.
- **Bodies** are JSON objects with \`Content-Type: application/json\`, of at most \`admin_api.max_body_bytes\`.
  An unknown member is an error. A star marks what is required.
- **Times** are RFC 3339 in UTC. A request may give another offset; a date alone means midnight UTC.
- **Lists** have the newest first. A list with \`limit\` comes in pages of \`admin_api.default_page_size\`, at most
  \`max_page_size\`. \`Link: <URL>; rel="next"\` leads to the next page with the same filters; the last page has none.
  A list that no index helps searches for at most 2 seconds. Then its page is short, and has \`Search-Complete: false\` beside its Link, which
  leads on; where nothing was found so far, it is 503 with both. \`offset\` is at most 100,000, and may be refused sooner where filters make it slow; \`cursor\`, begun with an empty value, reads to the end.
- **Errors** are \`application/problem+json\` (RFC 9457: \`type\`, \`detail\`, \`status\`) with \`error\` (one of the codes
  below), \`message\` (the same as \`detail\`), \`request_id\` and, for a wrong request, \`fields\`: every wrong member, at most 100.
- **Limits.** Five failed logins in 300 seconds lock a username for 900 seconds, fifty an address: 429 with
  \`Retry-After\`. From the fifth on, failures from an address are answered a second late. So many requests from one address
  that 64 wait for their tokens to be checked get 429; more than 64 requests, 8 exports, or 2 exports of one
  user at once get 503 with \`Retry-After\`.
`

export function renderAdminApi(): string {
  const { document, operations } = describedApi()
  const sections = document.tags.map(({ name }) => {
    const rows = operations.filter(({ operation }) => operation.tags.includes(name)).map(rowOf)
    return `## ${name}\n\n${table(['Endpoint', 'Permission', 'Request', 'Reply', 'Errors', 'Audit action'], rows)}`
  })
  return [INTRODUCTION, permissionTable(), errorTable(), ...sections, objects(document)].join('\n')
}

function permissionTable(): string {
  const rows = (Object.keys(PERMISSIONS) as Permission[]).map((permission) => [
    `\`${permission}\``,
    ...ROLES.map((role) => (rolesOf(permission).includes(role) ? 'yes' : '')),
  ])
  return table(['Permission', ...ROLES.map((role) => `\`${role}\``)], rows)
}

function errorTable(): string {
  return table(
    ['Code', 'Status'],
    Object.entries(ADMIN_ERRORS).map(([code, status]) => [`\`${code}\``, String(status)]),
  )
}

function rowOf({ method, path, operation }: Described): string[] {
  const { summary, security, responses } = operation
  const [[status = '', success] = [], ...errors] = Object.entries(responses)
  return [
    `\`${method} ${path}\` ${summary}`,
    security ? 'no token' : `\`${operation['x-permission']}\``,
    requestOf(operation),
    // Every member of a reply is there; a star would say nothing.
    `${status} ${contentOf(success?.content).replaceAll('`* ', '` ')}`.trim(),
    errors.map(([code]) => code).join(', '),
    operation['x-audit-action'] ? `\`${operation['x-audit-action']}\`` : '',
  ]
}

function requestOf({ parameters, requestBody }: Operation): string {
  const query = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, required, schema, description }) =>
      memberOf(name, description === undefined ? schema : { ...schema, description }, required),
    )
  const body = requestBody && contentOf(requestBody.content)
  return [
    ...(query.length > 0 ? [`query: ${query.join('; ')}`] : []),
    ...(body ? [requestBody.required ? `body: ${body}` : `body, may be absent: ${body}`] : []),
  ].join('<br>')
}

function contentOf(content: Content | undefined): string {
  const [[type, { schema }] = ['', { schema: {} }]] = Object.entries(content ?? {})
  if (!content) return ''
  return type === 'application/json' ? typeOf(schema) : `\`${type}\``
}

function objects({ components: { schemas } }: Document): string {
  const sections = Object.entries(schemas)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, schema]) => {
      const { properties, required = [] } = schema
      if (!properties) return `### ${name}\n\n${typeOf(schema)}\n`
      const rows = Object.entries(properties).map(([member, one]) => [
        `\`${member}\`${required.includes(member) ? '' : ' (may be absent)'}`,
        typeOf(one).replaceAll('`* ', '` '),
        one.description ?? '',
      ])
      return `### ${name}\n\n${table(['Member', 'Type', 'Notes'], rows)}`
    })
  return `## Objects\n\n${sections.join('\n')}`
}

function typeOf(schema: Schema): string {
  const { $ref, type, format, anyOf, items, properties, required = [], additionalProperties } = schema
  if ($ref !== undefined) return linkTo($ref)
  if (schema.const !== undefined) return `\`${schema.const}\``
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(' or ')
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  if (items) return `array of ${typeOf(items)}`
  if (properties) {
    const members = Object.entries(properties).map(([name, one]) => memberOf(name, one, required.includes(name)))
    return `{ ${members.join('; ')} }`
  }
  if (typeof additionalProperties === 'object') return `object with values of ${typeOf(additionalProperties)}`
  return FORMATS[format ?? ''] ?? (type === undefined ? 'any value' : [type].flat().join(' or '))
}

const FORMATS: Readonly<Record<string, string>> = { 'date-time': 'timestamp', uuid: 'UUID' }

function memberOf(name: string, schema: Schema, isRequired: boolean): string {
  const { description, default: fallback } = schema
  const notes = [
    ...(fallback === undefined || fallback === null
      ? []
      : [`default \`${typeof fallback === 'string' ? fallback : JSON.stringify(fallback)}\``]),
    ...(description === undefined ? [] : [description.replace(/\.$/, '')]),
  ]
  return `\`${name}\`${isRequired ? '*' : ''} ${typeOf(schema)}${notes.length > 0 ? ` (${notes.join(', ')})` : ''}`
}

function linkTo(reference: string): string {
  const name = reference.slice(reference.lastIndexOf('/') + 1)
  return `[${name}](#${name.toLowerCase()})`
}

function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return `${[line(heading), line(heading.map(() => '---')), ...rows.map(line)].join('\n')}\n`
}

/** The descriptions use no more of JSON Schema than this. */
interface Schema {
  $ref?: string
  type?: string | readonly string[]
  format?: string
  description?: string
  default?: unknown
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: readonly Schema[]
  items?: Schema
  properties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
  additionalProperties?: Schema | boolean
}

interface Parameter {
  name: string
  in: 'path' | 'query'
  required: boolean
  schema: Schema
  description?: string
}

type Content = Readonly<Record<string, { schema: Schema }>>

interface Operation {
  operationId: string
  tags: readonly [string]
  summary: string
  security?: readonly []
  'x-permission'?: string
  'x-audit-action'?: string
  parameters: readonly Parameter[]
  requestBody?: { required: boolean; content: Content }
  responses: Readonly<Record<string, { description: string; content?: Content }>>
}

interface Document {
  tags: readonly { name: string }[]
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  components: { schemas: Readonly<Record<string, Schema>> }
}

interface Described {
  method: string
  path: string
  operation: Operation
}

function describedApi(): { document: Document; operations: readonly Described[] } {
  const document = openApiDocument(ENDPOINTS, { version: '', baseUrl: '' }) as unknown as Document
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  )
  return { document, operations }
}
