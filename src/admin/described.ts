/** The descriptions as the OpenAPI document has them, with types: for the manual and the command line. */

import { ENDPOINTS } from './endpoints.ts'
import { openApiDocument } from './openapi.ts'

/** As much of a JSON Schema as the descriptions use. */
export interface Schema {
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

export interface Parameter {
  name: string
  in: 'path' | 'query'
  required: boolean
  schema: Schema
  description?: string
}

export type Content = Readonly<Record<string, { schema: Schema }>>

export interface Operation {
  operationId: string
  tags: readonly [string]
  summary: string
  security?: readonly []
  'x-roles'?: readonly string[]
  'x-audit-action'?: string
  parameters: readonly Parameter[]
  requestBody?: { required: boolean; content: Content }
  responses: Readonly<Record<string, { description: string; content?: Content }>>
}

export interface Document {
  tags: readonly { name: string }[]
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  components: { schemas: Readonly<Record<string, Schema>> }
}

export interface Described {
  method: string
  path: string
  operation: Operation
}

export function describedApi(): { document: Document; operations: readonly Described[] } {
  const document = openApiDocument(ENDPOINTS, { version: '', baseUrl: '' }) as unknown as Document
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  )
  return { document, operations }
}
