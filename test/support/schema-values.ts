/** Values shaped by a JSON Schema, and values that nearly are. */

import fc, { type Arbitrary } from 'fast-check'
import { anyCharacter } from './any-character.ts'
import { plainCsr } from './csr.ts'
import { P256_KEY } from './keys.ts'
import { words } from './words.ts'

/** The part of JSON Schema that zod writes for the Admin API. */
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

/** These texts have broken parsers, databases, logs and terminals before. */
const TROUBLE = [
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
  'x'.repeat(70_000),
  '9'.repeat(400),
  '\r\nX: y',
  ...words`
    -1 1e3 0x10 NaN 2147483648 9007199254740993 true * *. 0000-01-01 9999-12-31T23:59:59Z 2026-02-30
    +275760-09-13T00:00:00Z 2026-01-01T00:00:00+23:59 2026-01-01 ::1 10.0.0.0/33 0.0.0.0/0 fe80::1%eth0 xn-- a..b .
    (a+)+$ [ __proto__ constructor
  `,
]

const WORDS = words`www.example.com *.example.com 192.0.2.7 admin auditor dns ip valid team-a a@b.example`

/** PKCS #10 for www.example.com with a P-256 key. */
const CSR = plainCsr(P256_KEY, ['www.example.com']).toString('base64')

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
  return someOf(
    required,
    members.map(([name, one]) => [name, memberFor(name, one, definitions, depth + 1)]),
  )
}

/** Takes few of the members that may be missing: each may have a rule that the schema does not say. */
export function someOf(
  required: readonly string[],
  members: readonly (readonly [string, Arbitrary<unknown>])[],
): Arbitrary<Record<string, unknown>> {
  const optional = members.filter(([name]) => !required.includes(name))
  const needed = members.filter(([name]) => required.includes(name))
  return fc
    .subarray(optional, { maxLength: Math.min(optional.length, MOST_OPTIONAL) })
    .chain((chosen) => fc.record(Object.fromEntries([...needed, ...chosen])))
}

const MOST_OPTIONAL = 3

/** A member may have a rule in its name: its value mostly keeps that. */
export function memberFor(name: string, schema: Schema, definitions: Definitions, depth = 0): Arbitrary<unknown> {
  const usual = USUAL[name]
  const any = fitting(schema, definitions, depth)
  if (!usual) return any
  const value = schema.type === 'array' ? fc.array(usual, { minLength: 1, maxLength: 3 }) : usual
  return fc.oneof({ weight: 6, arbitrary: value }, { weight: 1, arbitrary: any })
}

const hex = (digits: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${digits}}$`))
const day = (year: number) => fc.constantFrom(`${year}-01-31`, `${year}-02-28T12:00:00+01:00`)
const name = () => fc.stringMatching(/^[a-z][a-z0-9]{2,12}$/)
const identifier = () =>
  fc.oneof(
    name().map((label) => `${label}.example.com`),
    fc.constant('*.a.example.com'),
  )

/** Member or parameter → values that fit where it stands. */
const USUAL: Readonly<Record<string, Arbitrary<unknown>>> = {
  serial: hex(16),
  serial_numbers: hex(16),
  fingerprint: hex(64),
  issuer: hex(64),
  spki_sha256: hex(64),
  username: name(),
  email: fc.constant('a@b.example'),
  kid: name(),
  name: name(),
  label: name(),
  value: identifier(),
  allow: identifier(),
  disallow: identifier(),
  allowed_identifiers: identifier(),
  preapproved_networks: fc.constant('10.0.0.0/8'),
  allowed_networks: fc.constant('2001:db8::/32'),
  profiles: fc.constant('default'),
  profile: fc.constant('default'),
  eab_kid: name(),
  domain: identifier(),
  expires_at: day(2999),
  window_end: day(2999),
  explanation_url: fc.constant('https://ca.example/why'),
  issued_before: day(2001),
  issued_after: day(2001),
  expiring_before: day(2999),
  not_after: day(2999),
  cursor: fc.constant(''),
  offset: fc.constant(0),
  limit: fc.integer({ min: 1, max: 50 }),
  action: fc.constantFrom('user.create', 'auth.login'),
  reason: fc.constantFrom(0, 1, 3, 4, 5),
  san_regex: fc.constant('[a-z.]+'),
  subject_regex: fc.constant('CN=.*'),
  common_name_regex: fc.constant('.*'),
  csr: fc.constant(CSR),
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
