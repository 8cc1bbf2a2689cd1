/** Schemas of filters, made from their descriptions in `resources`, and the form of their conditions in SQL. */

import * as z from 'zod/v4'
import { boundedArray } from '../shared/lib/bounded.ts'
import type { Fragment } from '../store/list-page.ts'
import { type Filter, type Filters, isChoice, valuesOf } from './resources/filter.ts'
import {
  certificateName,
  fingerprint,
  flagParameter,
  instantParameter,
  line,
  serialNumber,
  tag,
  text,
  uuid,
} from './schemas.ts'

/** A third of a megabyte; a longer list is several requests. */
const MOST_SERIALS = 10_000

const IN_QUERY = {
  uuid,
  serial: serialNumber,
  serials: () => boundedArray(serialNumber(), MOST_SERIALS),
  sha256: fingerprint,
  name: certificateName,
  line: ({ most = 255 }: Filter) => line(most),
  word: ({ most = 255 }: Filter) => z.string().min(1).max(most),
  text: ({ most = 255 }: Filter) => text(most, `must have at most ${most} characters`),
  tag,
  flag: flagParameter,
  time: instantParameter,
}
/** A job keeps its filter as JSON. An invalid date is reported already, and has no text. */
const IN_BODY = { ...IN_QUERY, time: () => instantParameter().transform((at) => at.toJSON() ?? '') }

const string = () => z.string()
const IN_ROW = {
  uuid: string,
  serial: string,
  serials: () => z.array(z.string()),
  sha256: string,
  name: string,
  line: string,
  word: string,
  text: string,
  tag: string,
  flag: () => z.boolean(),
  time: string,
}

type Schemas = typeof IN_QUERY | typeof IN_BODY | typeof IN_ROW
type SchemaOf<S extends Schemas, K extends Filter['kind']> = z.ZodOptional<
  K extends keyof S ? MadeBy<S[K]> : z.ZodEnum<{ [V in keyof K & string]: V }>
>
type MadeBy<T> = T extends (filter: Filter) => z.ZodType ? ReturnType<T> : never
type Members<S extends Schemas, F extends Filters> = { [N in keyof F]: SchemaOf<S, F[N]['kind']> }

function members<S extends Schemas, F extends Filters>(schemas: S, filters: F): Members<S, F> {
  const named = Object.entries(filters).map(([name, filter]) => {
    const { kind, says } = filter
    const make: (filter: Filter) => z.ZodType = isChoice(kind) ? () => z.enum(valuesOf(kind)) : schemas[kind]
    return [name, make(filter).optional().meta({ description: says })]
  })
  return Object.fromEntries(named)
}

/** Members of a query. */
export const parametersOf = <F extends Filters>(filters: F) => members(IN_QUERY, filters)

/** A filter in a body, as an object. */
export const filterOf = <F extends Filters>(filters: F) => z.strictObject(members(IN_BODY, filters))

/** A filter that a row keeps as JSON. */
export const storedFilterOf = <F extends Filters>(filters: F) => z.strictObject(members(IN_ROW, filters))

/** A time is a text where a filter is kept as JSON. */
type At<V> = V extends Date ? Date | string : V

/** The condition of each member, or several. */
export type Conditions<F> = { [K in keyof F]-?: (value: At<NonNullable<F[K]>>) => Fragment | readonly Fragment[] }

/** The conditions of the members that are given. */
export const allGiven = <F extends object>(conditions: Conditions<F>, filter: F): Fragment[] =>
  Object.entries(filter).flatMap(([member, value]) =>
    value === undefined ? [] : conditions[member as keyof F](value as never),
  )
