/** Requests to every endpoint of the Admin API, right ones and wrong ones, from a seed. */

import fc, { type Arbitrary } from 'fast-check'
import { METHODS } from '../../src/admin/admin-endpoint.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { openApiDocument } from '../../src/admin/openapi.ts'
import {
  brokenText,
  type Definitions,
  fitting,
  memberFor,
  nearly,
  once,
  type Schema,
  someOf,
  trouble,
} from './schema-values.ts'

export const ACTORS = ['admin', 'auditor', 'operator', 'registrar', 'none'] as const
export type FuzzActor = (typeof ACTORS)[number]

/** A path parameter: an object that is there, by its place in the list, or a text. */
type PathPart = { known: number } | { text: string }

export interface FuzzCase {
  actor: FuzzActor
  method: string
  path: string
  params: Readonly<Record<string, PathPart>>
  query: string
  body: string
  contentType: string | undefined
  /** For the actor without a token. */
  authorization: string | undefined
}

interface Operation {
  parameters: readonly { name: string; in: string; required: boolean; schema: Schema }[]
  requestBody?: { content: Readonly<Record<string, { schema: Schema }>> }
}

const document = openApiDocument(ENDPOINTS, { version: '0', baseUrl: 'http://127.0.0.1/api' })
const definitions = (document.components as { schemas: Definitions }).schemas
const paths = document.paths as Readonly<Record<string, Readonly<Record<string, Operation>>>>

/** The first of `n` endpoints and then in turn, so that each gets its share. */
export function fuzzCases(count: number, seed: number): FuzzCase[] {
  const each = Math.ceil(count / ENDPOINTS.length)
  const byEndpoint = ENDPOINTS.map(({ method, path }, index) =>
    fc.sample(caseFor(method, path), { numRuns: each, seed: seed + index }),
  )
  return Array.from({ length: each }, (_, turn) => byEndpoint.flatMap((cases) => cases[turn] ?? []))
    .flat()
    .slice(0, count)
}

function caseFor(method: string, path: string): Arbitrary<FuzzCase> {
  const operation = paths[path === '' ? '/' : path]?.[method.toLowerCase()]
  if (!operation) throw new Error(`${method} ${path} is not in the document`)
  const body = operation.requestBody?.content['application/json']?.schema
  return fc.record({
    actor: often<FuzzActor>('admin', fc.constantFrom(...ACTORS)),
    method: often(method, fc.constantFrom(...METHODS, 'HEAD', 'OPTIONS', 'QUERY')),
    path: fc.constant(path),
    params: fc.record(Object.fromEntries([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name, pathPart()]))),
    query: queryFor(operation),
    body: body ? bodyFor(body) : often('', brokenText()),
    contentType: often<string | undefined>(body && 'application/json', contentTypes()),
    authorization: fc.oneof(
      fc.constantFrom(undefined, 'Bearer', 'Bearer x', 'Basic YTpi', 'Bearer eyJhbGciOiJub25lIn0.e30.'),
      printable(),
    ),
  })
}

/** Nine times in ten the usual. */
const often = <T>(usual: T, others: Arbitrary<T>): Arbitrary<T> =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: others })

const printable = once(() => fc.stringMatching(/^[\x21-\x7e][\x20-\x7e]{0,60}[\x21-\x7e]$/))

const contentTypes = () =>
  fc.constantFrom(
    undefined,
    '',
    'text/plain',
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'application/merge-patch+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/jsonx',
    'json',
  )

const pathPart = (): Arbitrary<PathPart> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.nat(10_000).map((known) => ({ known })) },
    { weight: 1, arbitrary: fc.uuid().map((text) => ({ text })) },
    { weight: 1, arbitrary: trouble().map((text) => ({ text })) },
  )

function bodyFor(schema: Schema): Arbitrary<string> {
  const json = (value: Arbitrary<unknown>) => value.map((one) => JSON.stringify(one) ?? '')
  return fc.oneof(
    { weight: 5, arbitrary: json(fitting(schema, definitions)) },
    { weight: 4, arbitrary: json(nearly(schema, definitions)) },
    { weight: 1, arbitrary: brokenText() },
  )
}

function queryFor({ parameters }: Operation): Arbitrary<string> {
  const known = parameters.filter((parameter) => parameter.in === 'query')
  const right = someOf(
    [],
    known.map(({ name, schema }) => [name, memberFor(name, schema, definitions)]),
  )
  const wrong = fc.record({
    name: fc.oneof(known.length > 0 ? fc.constantFrom(...known.map(({ name }) => name)) : trouble(), trouble()),
    value: trouble(),
  })
  const text = (values: object) =>
    new URLSearchParams(
      Object.entries(values).map(([name, value]): [string, string] => [name, String(value)]),
    ).toString()
  if (known.length === 0)
    return often(
      '',
      wrong.map(({ name, value }) => text({ [name]: value })),
    )
  return fc.oneof(
    { weight: 6, arbitrary: right.map(text) },
    {
      weight: 3,
      arbitrary: fc.tuple(right, wrong).map(([values, { name, value }]) => text({ ...values, [name]: value })),
    },
    {
      weight: 1,
      arbitrary: fc.oneof(printable().map(encodeURI), fc.constantFrom('limit=1&limit=2', '%', '%zz=%ff', '&&==')),
    },
  )
}

/** Names of objects that requests have made, by the path segment that they are below. */
export class KnownNames {
  readonly #names = new Map<string, string[]>()
  readonly #never: ReadonlySet<string>

  /** @param never ids of the users whom the test itself needs */
  constructor(never: ReadonlySet<string>) {
    this.#never = never
  }

  /** Keeps names from a reply's body; the request had this `path`. */
  keep(path: string, body: unknown): void {
    const rows = Array.isArray(body) ? body : [body]
    const names = this.#of(path.split('/')[1] ?? '')
    for (const row of rows)
      for (const member of ['id', 'serial_number', 'fingerprint'])
        if (typeof row?.[member] === 'string' && !this.#never.has(row[member])) names.push(row[member])
    names.splice(0, names.length - 200)
  }

  /** The path of a case, with its parameters filled in. */
  fill({ path, params }: Pick<FuzzCase, 'path' | 'params'>): string {
    return path.replaceAll(/([^/]+)\/\{(\w+)\}/g, (_, segment: string, name: string) => {
      return `${segment}/${encode(this.#textOf(params[name], segment))}`
    })
  }

  #textOf(part: PathPart | undefined, segment: string): string {
    if (part === undefined) return ''
    if ('text' in part) return part.text
    const names = this.#of(segment === 'by-fingerprint' ? 'certificate' : segment)
    return names.at(part.known % Math.max(names.length, 1)) ?? 'none'
  }

  #of(segment: string): string[] {
    const key = segment.replace(/s$/, '')
    const names = this.#names.get(key) ?? []
    this.#names.set(key, names)
    return names
  }
}

/** A lone surrogate has no encoding; a stranger sends its bytes. */
function encode(text: string): string {
  return /\p{Cs}/u.test(text) ? '%ED%A0%80' : encodeURIComponent(text)
}
