/**
 * What strangers and administrators send has bounds: no schema takes a list, a record or a text of any length, and
 * none reads the elements of a list before it has counted them.
 */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod/v4'
import { METHODS } from '../../signer/protocol/methods.ts'
import { ENDPOINTS as ACME } from '../../src/acme/application.ts'
import { ENDPOINTS as ADMIN } from '../../src/admin/endpoints.ts'
import { boundedArray, boundedList, ELEMENTS } from '../../src/shared/lib/bounded.ts'

type Node = z.core.$ZodType

/** Formats whose pattern is of one length. */
const SHORT_FORMATS = ['uuid', 'guid']

/** A pattern whose matches have a greatest length. */
const isShort = (pattern: RegExp) => /^\^.*\$$/.test(pattern.source) && !/[*+]|\{\d+,\}/.test(pattern.source)

function isBoundedText(node: z.core.$ZodString): boolean {
  const { format = '' } = node._zod.def as { format?: string }
  if (SHORT_FORMATS.includes(format)) return true
  return (node._zod.def.checks ?? []).some((check) => {
    const { check: kind, pattern } = check._zod.def as { check: string; pattern?: RegExp }
    return kind === 'max_length' || kind === 'length_equals' || (pattern !== undefined && isShort(pattern))
  })
}

function isOneOfSome(key: Node): boolean {
  const { def } = (key as z.core.$ZodTypes)._zod
  return def.type === 'union' ? def.options.every(isOneOfSome) : def.type === 'enum' || def.type === 'never'
}

/** Paths of what has no bound. */
function unbounded(node: Node, at: string): string[] {
  const element = ELEMENTS.get(node)
  if (element) return unbounded(element, `${at}[]`)
  const { def } = (node as z.core.$ZodTypes)._zod
  switch (def.type) {
    case 'object':
      return Object.entries(def.shape).flatMap(([name, member]) => unbounded(member, `${at}.${name}`))
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'readonly':
      return unbounded(def.innerType, at)
    case 'union':
      return def.options.flatMap((option) => unbounded(option, at))
    case 'pipe':
      return [...unbounded(def.in, at), ...unbounded(def.out, at)]
    case 'string':
      return isBoundedText(node as z.core.$ZodString) ? [] : [at]
    case 'record':
      return isOneOfSome(def.keyType) ? unbounded(def.valueType, `${at}{}`) : [at]
    // No element, member or character of it is read.
    case 'unknown':
    case 'transform':
    case 'custom':
    case 'boolean':
    case 'number':
    case 'literal':
    case 'enum':
      return []
    default:
      return [at]
  }
}

describe('every schema of what others send has bounds:', () => {
  test('the Admin API', () => {
    const found = ADMIN.flatMap(({ id, params, query, body }) =>
      Object.entries({ params, query, body }).flatMap(([where, schema]) =>
        schema ? unbounded(schema, `${id} ${where}`) : [],
      ),
    )
    assert.deepEqual(found, [])
  })

  test('the payloads of ACME', () => {
    const found = Object.entries(ACME).flatMap(([name, { payload }]) =>
      typeof payload === 'object' && 'schema' in payload ? unbounded(payload.schema, name) : [],
    )
    assert.deepEqual(found, [])
  })

  test('what the signer is asked', () =>
    assert.deepEqual(
      Object.entries(METHODS).flatMap(([name, { params }]) => unbounded(params, name)),
      [],
    ))

  test('a list, a record and a text without one are found', () => {
    const schema = z.object({
      list: z.array(z.boolean()).max(3).optional(),
      record: z.record(z.string(), z.boolean()),
      text: z.string().trim(),
      pattern: z.string().regex(/^a+$/),
      inner: boundedList(z.strictObject({ name: z.string() }), 3),
      shown: boundedArray(z.string(), 3),
      good: z.string().max(3),
    })
    const paths = ['list', 'record', 'text', 'pattern', 'inner[].name', 'shown[]']
    assert.deepEqual(
      unbounded(schema, ''),
      paths.map((path) => `.${path}`),
    )
  })
})

test('the length of a list is judged before its elements', () => {
  let read = 0
  const element = z.string().refine(() => ++read > 0)
  const parsed = boundedArray(element, 3).safeParse(['a', 'b', 'c', 'd'])
  assert.equal(parsed.error?.issues[0]?.message, 'must be at most 3 entries long')
  assert.equal(read, 0)
  assert.deepEqual(boundedArray(element, 3, 1).safeParse([]).success, false)
  assert.deepEqual(boundedArray(element, 3).parse(['a']), ['a'])
})
