/** Values shaped by a JSON Schema, and values that nearly are. */

import fc, { type Arbitrary } from 'fast-check'
import { anyCharacter } from './any-character.ts'

/** As much of JSON Schema as zod writes for the Admin API. */
export interface Schema {
  $ref?: string
  type?: string
  format?: string
  pattern?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: readonly Schema[]
  oneOf?: readonly Schema[]
  items?: Schema
  maxItems?: number
  properties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
  additionalProperties?: Schema | boolean
}

export type Definitions = Readonly<Record<string, Schema>>

/** What has broken parsers, databases, logs and terminals before. */
const TROUBLE = [
  ...[
    '',
    ' ',
    'a\u0000b',
    '\ud800',
    '\u202e',
    '\u{1f600}',
    '%',
    '_',
    "'; DROP TABLE users; --",
    '../..',
    'null',
    'x'.repeat(300),
  ],
  ...[
    'x'.repeat(70_000),
    '9'.repeat(400),
    '-1',
    '1e3',
    '0x10',
    'NaN',
    '2147483648',
    '9007199254740993',
    'true',
    '*',
    '*.',
    '\r\nX: y',
  ],
  ...[
    '0000-01-01',
    '9999-12-31T23:59:59Z',
    '2026-02-30',
    '+275760-09-13T00:00:00Z',
    '2026-01-01T00:00:00+23:59',
    '2026-01-01',
  ],
  ...[
    '::1',
    '10.0.0.0/33',
    '0.0.0.0/0',
    'fe80::1%eth0',
    'xn--',
    'a..b',
    '.',
    '(a+)+$',
    '[',
    '__proto__',
    'constructor',
  ],
]

const WORDS = [
  'www.example.com',
  '*.example.com',
  '192.0.2.7',
  'admin',
  'auditor',
  'dns',
  'ip',
  'valid',
  'team-a',
  'a@b.example',
]

/** Making one of these takes milliseconds, mostly for the letters that it may have; all endpoints share it. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

export const trouble = once<Arbitrary<string>>(() =>
  fc.oneof(fc.constantFrom(...TROUBLE), fc.string({ unit: anyCharacter })),
)

const anything = once<Arbitrary<unknown>>(() =>
  fc.oneof(
    trouble(),
    fc.jsonValue({ maxDepth: 3 }),
    fc.constantFrom<unknown>(null, -0, 1e308, 2 ** 53, -1, [], {}, true, nested(200)),
  ),
)

const word = once(() => fc.oneof(fc.constantFrom(...WORDS), fc.stringMatching(/^[a-z][a-z0-9-]{0,15}$/)))

const patterns = new Map<string, Arbitrary<string>>()

function matching(pattern: string): Arbitrary<string> {
  const known = patterns.get(pattern) ?? fc.stringMatching(new RegExp(pattern))
  patterns.set(pattern, known)
  return known
}

function nested(depth: number): unknown {
  return JSON.parse('['.repeat(depth) + ']'.repeat(depth))
}

/** Fits the schema in most cases; rules that a schema cannot say make up the rest. */
export function fitting(schema: Schema, definitions: Definitions, depth = 0): Arbitrary<unknown> {
  if (schema.$ref !== undefined) {
    const named = definitions[schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)] ?? {}
    return depth > 6 ? fc.constant(null) : fitting(named, definitions, depth + 1)
  }
  if ('const' in schema) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices) return fc.oneof(...choices.map((one) => fitting(one, definitions, depth + 1)))
  switch (schema.type) {
    case 'string':
      return textFor(schema)
    case 'integer':
    case 'number':
      return fc.integer({
        min: Math.max(schema.minimum ?? -5, -(2 ** 31)),
        max: Math.min(schema.maximum ?? 500, 2 ** 31 - 1),
      })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(fitting(schema.items ?? {}, definitions, depth + 1), {
        maxLength: Math.min(schema.maxItems ?? 4, 4),
      })
    case 'object':
      return objectFor(schema, definitions, depth)
    default:
      return fc.jsonValue({ maxDepth: 2 })
  }
}

function textFor({ format, pattern, minLength = 0, maxLength = 40 }: Schema): Arbitrary<string> {
  if (format === 'uuid') return fc.uuid()
  if (format === 'date-time')
    return fc.oneof(
      fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }).map((at) => at.toISOString()),
      fc.constantFrom('2026-01-31', '2020-02-29T12:00:00+01:00'),
    )
  if (pattern !== undefined) return matching(pattern)
  return word().map((text) => text.slice(0, maxLength).padEnd(minLength, 'x'))
}

function objectFor(schema: Schema, definitions: Definitions, depth: number): Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties } = schema
  const members = Object.entries(properties)
  if (members.length === 0 && typeof additionalProperties === 'object')
    return fc.dictionary(fc.constantFrom(...WORDS), fitting(additionalProperties, definitions, depth + 1), {
      maxKeys: 3,
    })
  const model = Object.fromEntries(members.map(([name, one]) => [name, fitting(one, definitions, depth + 1)]))
  return fc.record(model, { requiredKeys: [...required] })
}

/** One fault in a value that fits: a member missing, strange, or too much. */
export function nearly(schema: Schema, definitions: Definitions): Arbitrary<unknown> {
  const names = Object.keys(schema.properties ?? {})
  const fault = fc.record({
    kind: fc.constantFrom('missing', 'strange', 'strange', 'strange', 'more'),
    name: names.length > 0 ? fc.constantFrom(...names) : trouble(),
    value: anything(),
    unknown: trouble(),
  })
  return fc.tuple(fitting(schema, definitions), fault).map(([value, { kind, name, value: strange, unknown }]) => {
    if (typeof value !== 'object' || value === null) return strange
    const { [name]: _, ...rest } = value as Record<string, unknown>
    if (kind === 'missing') return rest
    return kind === 'strange' ? { ...rest, [name]: strange } : { ...value, [unknown]: strange }
  })
}

/** Texts in place of a JSON object. */
export const brokenText = once<Arbitrary<string>>(() =>
  fc.oneof(
    fc.constantFrom(
      '',
      '{',
      '[]',
      'null',
      '"x"',
      '1',
      '{"a":1,"a":2}',
      '\ufeff{}',
      '{}{}',
      '['.repeat(50_000),
      '{"__proto__":{"role":"admin"}}',
    ),
    fc.string({ unit: anyCharacter }),
    fc.json(),
  ),
)
