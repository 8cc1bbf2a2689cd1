/** Sentences for schema violations: what is wrong and what would be right. A secret's value is never shown. */

import type { core } from 'zod/v4'
import { formatPath, type Path, type Violation } from './notice.ts'
import { expectation, findNode, isSecret, type SchemaNode, typeOf } from './schema-node.ts'
import { nearest } from './suggest.ts'

/** Longest value that a message repeats. */
const MAX_SHOWN = 60
/** A message lists the keys of a section only up to this many. */
const MAX_LISTED_KEYS = 14

/**
 * @param root the checked value
 * @param variables variable behind a value, by formatted path; undefined where none are replaced
 */
export function describeIssue(
  issue: core.$ZodIssue,
  root: unknown,
  schema: SchemaNode,
  variables?: ReadonlyMap<string, string>,
): Violation[] {
  const path = issue.path as (string | number)[]
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ path: [...path, key], message: unknownKey(key, findNode(schema, path)) }))
  }
  if (issue.code === 'invalid_key') {
    return [{ path, message: 'is not a usable name; must consist of letters, digits, ".", "_" and "-"' }]
  }
  const node = findNode(schema, path)
  // A rule between several keys or entries has its own message.
  if (issue.code === 'custom' && (node?.properties ?? node?.items)) return [{ path, message: issue.message }]
  const value = valueAt(root, path)
  const right = node === undefined ? issue.message : `must be ${expectation(node)}`
  const showable = node !== undefined && isScalar(node) && !isSecret(schema, path)
  const wrong = describeValue(value, showable, variables?.get(formatPath(path)))
  const isWritten = variables?.get(formatPath(path)) === undefined
  return [{ path, message: `${wrong}; ${right}${isWritten ? typingHint(value, node) : ''}` }]
}

function unknownKey(key: string, section: SchemaNode | undefined): string {
  const known = Object.keys(section?.properties ?? {}).filter((name) => name !== '_comment')
  const meant = nearest(key, known)
  if (meant !== undefined) return `unknown key; did you mean ${meant}?`
  return known.length <= MAX_LISTED_KEYS ? `unknown key; known here: ${known.join(', ')}` : 'unknown key'
}

export function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, part) => (typeof value === 'object' && value !== null ? Reflect.get(value, part) : undefined),
    root,
  )
}

function kindOf(value: unknown): string {
  if (value === null) return 'empty (null)'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list with ${value.length} entries`
  if (typeof value === 'object') return 'a section'
  return (
    { string: value === '' ? 'an empty text' : 'a text', boolean: 'true or false' }[typeof value as string] ??
    'a number'
  )
}

/** A text in the place of a section may be a misplaced secret, so it is not shown. */
const isScalar = (node: SchemaNode) => node.type !== 'object' && node.type !== 'array'

function describeValue(value: unknown, showable: boolean, variable: string | undefined): string {
  if (value === undefined) return 'is missing'
  if (variable !== undefined) return `is ${kindOf(value)} from \${${variable}}`
  if (!showable || value === '' || value === null || typeof value === 'object') return `is ${kindOf(value)}`
  return `is ${showScalar(value as string | number | boolean)}`
}

function showScalar(value: string | number | boolean): string {
  if (typeof value !== 'string') return String(value)
  const withoutLogin = value.replaceAll(/\/\/[^/@]*@/g, '//…@')
  return JSON.stringify(withoutLogin.length > MAX_SHOWN ? `${withoutLogin.slice(0, MAX_SHOWN)}…` : withoutLogin)
}

/** Names the usual slip behind a text in the place of a number. */
function typingHint(value: unknown, node: SchemaNode | undefined): string {
  if (typeof value !== 'string' || !['boolean', 'integer', 'number'].includes(typeOf(node))) return ''
  return ', without quotes'
}
