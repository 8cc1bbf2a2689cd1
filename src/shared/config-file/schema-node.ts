/** A schema as plain data, for messages, the manual and editors. */

import * as z from 'zod/v4'
import type { Path } from './notice.ts'

/** `live`: applied on SIGHUP. `restart`: read once, at start. */
export type ReloadClass = 'live' | 'restart'

/** Notes about a key beside its type; given to zod as metadata. */
export interface FieldNotes {
  unit?: 'bytes' | 'seconds' | 'milliseconds' | 'minutes' | 'days' | 'bits'
  /** `restart` when absent. */
  reload?: ReloadClass
  /** The value never appears in an error, a warning or a log line. */
  secret?: true
  /** A right value in words, to follow "must be". Derived from type and bounds when absent. */
  expects?: string
  /** Replaces the default in the manual where it depends on the machine. */
  defaultText?: string
}

declare module 'zod/v4/core' {
  interface GlobalMeta extends FieldNotes {}
}

/** The members of JSON Schema in use here, with the notes beside them. */
export interface SchemaNode extends FieldNotes {
  /** A list with "null" for a key that may be null. */
  type?: string | string[]
  description?: string
  default?: unknown
  enum?: unknown[]
  pattern?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  minLength?: number
  minItems?: number
  maxItems?: number
  required?: string[]
  properties?: Record<string, SchemaNode>
  additionalProperties?: false | SchemaNode
  items?: SchemaNode
  anyOf?: SchemaNode[]
}

/** Describes the file's content (input), not the value after reading (output). */
export const schemaNodeOf = (schema: z.ZodType): SchemaNode => z.toJSONSchema(schema, { io: 'input' }) as SchemaNode

/** The node without "or null" around it. */
export function withoutNull(node: SchemaNode): SchemaNode {
  if (Array.isArray(node.type)) {
    const types = node.type.filter((type) => type !== 'null')
    return types.length === 1 ? { ...node, type: types[0] as string } : node
  }
  if (node.anyOf === undefined) return node
  const rest = node.anyOf.filter((option) => option.type !== 'null')
  const { anyOf: _, ...outer } = node
  return rest.length === 1 ? { ...rest[0], ...outer } : node
}

/** Its type when it is not null. */
export const typeOf = (node: SchemaNode | undefined): string => (node && (withoutNull(node).type as string)) ?? ''

function childNode(node: SchemaNode | undefined, part: string | number): SchemaNode | undefined {
  if (node === undefined) return undefined
  if (typeof part === 'number') {
    // A key may take one value or a list.
    const entry = node.items ?? node.anyOf?.find(({ items }) => items)?.items
    return entry && withoutNull(entry)
  }
  const known = node.properties !== undefined && Object.hasOwn(node.properties, part)
  const child = known ? node.properties?.[part] : node.additionalProperties || undefined
  return child && withoutNull(child)
}

/** Undefined for a key that is not in the schema. */
export const findNode = (schema: SchemaNode, path: Path): SchemaNode | undefined =>
  path.reduce<SchemaNode | undefined>((node, part) => childNode(node, part), schema)

/** A secret is a marked key or any key below one. */
export const isSecret = (schema: SchemaNode, path: Path): boolean =>
  path.some((_, index) => findNode(schema, path.slice(0, index + 1))?.secret)

/** The largest safe integer in the schema means "no upper bound". */
const bounded = (maximum: number | undefined) => maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER

function range(node: SchemaNode): string {
  const low = node.minimum !== undefined && node.minimum > Number.MIN_SAFE_INTEGER ? node.minimum : undefined
  const upTo = bounded(node.maximum) ? `${node.maximum}` : undefined
  if (node.exclusiveMinimum !== undefined) {
    return ` above ${node.exclusiveMinimum}${upTo === undefined ? '' : `, at most ${upTo}`}`
  }
  if (low !== undefined && upTo !== undefined) return ` from ${low} to ${upTo}`
  return low === undefined ? '' : `, at least ${low}`
}

function listExpectation(node: SchemaNode): string {
  const entry = node.items === undefined ? 'values' : `${expectation(node.items)}`
  const limits = [
    ...(node.minItems === undefined ? [] : [`at least ${node.minItems}`]),
    ...(node.maxItems === undefined ? [] : [`at most ${node.maxItems}`]),
  ]
  return `a list${limits.length > 0 ? ` of ${limits.join(', ')}` : ''}, each entry ${entry}`
}

/** A right value in words, to follow "must be". */
export function expectation(node: SchemaNode): string {
  const plain = withoutNull(node)
  if (plain.expects !== undefined) return plain.expects
  if (plain.enum !== undefined)
    return plain.enum.length === 1 ? String(plain.enum[0]) : `one of ${plain.enum.join(', ')}`
  switch (plain.type) {
    case 'integer':
      return `a whole number${range(plain)}`
    case 'number':
      return `a number${range(plain)}`
    case 'boolean':
      return 'true or false'
    case 'string':
      return plain.minLength === undefined ? 'a text' : 'a text that is not empty'
    case 'array':
      return listExpectation(plain)
    default:
      return 'a section: keys with values'
  }
}
