/**
 * Schemas that several resources share: values, rows, and filters made from their descriptions in `resources`, with the form of
 * their conditions in SQL.
 */

import * as z from 'zod/v4'
import { isTag, MOST_TAGS, TAG_RULE } from '../domain/permissions.ts'
import { parseSerialNumber } from '../domain/revocation.ts'
import { boundedArray } from '../shared/lib/bounded.ts'
import { canonicalName } from '../shared/protocol/identifier.ts'
import type { Fragment } from '../store/list-page.ts'
import { type Filter, type Filters, isChoice, valuesOf } from './resources/filter.ts'

/** A longer text is refused before any other check runs. */
export const text = (max: number, error?: string) =>
  z.string().max(max, { abort: true, ...(error !== undefined && { error }) })

export const uuid = () => z.uuid({ error: 'must be a UUID' }).transform((id) => id.toLowerCase())
export const timestamp = () => z.iso.datetime()
/** Timestamps leave as RFC 3339 in UTC. */
export const time = (at: Date): string => at.toISOString()
export const timeOrNull = (at: Date | null): string | null => at?.toISOString() ?? null

type WithTexts<R> = { [M in keyof R]: R[M] extends Date ? string : R[M] extends Date | null ? string | null : R[M] }
/** Writes the times of a row as texts. Every member leaves, and the schema of a reply refuses others (`z.strictObject`). */
export const withTimes = <R extends object>(row: R): WithTexts<R> =>
  Object.fromEntries(
    Object.entries(row).map(([member, value]) => [member, value instanceof Date ? time(value) : value]),
  ) as WithTexts<R>

type Column<S> =
  S extends z.ZodNullable<infer Inner extends z.ZodType>
    ? z.ZodNullable<Column<Inner>>
    : S extends z.ZodISODateTime
      ? z.ZodDate
      : S extends z.ZodUUID
        ? z.ZodString
        : S

function columnOf(member: unknown): z.ZodType {
  if (member instanceof z.ZodNullable) return columnOf(member.unwrap()).nullable()
  if (member instanceof z.ZodISODateTime) return z.date()
  return member instanceof z.ZodUUID ? z.string() : (member as z.ZodType)
}

/** The row of a reply whose columns have the names of its members: its times are dates, and PostgreSQL has checked its ids. */
export const rowOf = <S extends z.ZodRawShape>(reply: z.ZodObject<S>): z.ZodObject<{ [M in keyof S]: Column<S[M]> }> =>
  z.object(Object.fromEntries(Object.entries(reply.shape).map(([name, member]) => [name, columnOf(member)]))) as never

const INSTANT =
  /^(?<date>\d{4}-\d\d-\d\d)(?:[Tt](?<time>\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(?<offset>[Zz]|[+-]\d\d:\d\d)?)?$/
const INSTANT_RULE = 'must be a time such as 2026-01-31T12:00:00Z, or a date'

/** ISO 8601. Without an offset the time is in UTC, and a date alone means midnight. */
export const instantParameter = () =>
  text(64, INSTANT_RULE)
    .transform((text, check) => {
      const at = parseInstant(text)
      if (!at) check.addIssue(INSTANT_RULE)
      return at ?? z.NEVER
    })
    .meta({ format: 'date-time' })

/** The end of something that begins now. */
export const futureInstant = () =>
  instantParameter()
    .refine((at) => at.getTime() > Date.now(), { error: 'must be in the future' })
    .meta({ format: 'date-time' })

function parseInstant(text: string): Date | undefined {
  const { date = '', time = '00:00', offset = 'Z' } = INSTANT.exec(text)?.groups ?? {}
  const at = new Date(`${date}T${time}${offset.toUpperCase()}`)
  // `Date` takes 30 February for 2 March.
  if (Number.isNaN(at.getTime()) || new Date(date).toJSON()?.slice(0, 10) !== date) return undefined
  // PostgreSQL has no year 0, and neither side writes years of five digits alike.
  const year = at.getUTCFullYear()
  return year >= 1 && year <= 9999 && !time.startsWith('24') ? at : undefined
}

const FLAGS: Readonly<Record<string, boolean>> = { true: true, false: false, 1: true, 0: false }

/** `true`, `false`, `1` or `0`, in any case. */
export const flagParameter = () =>
  text(5, 'must be true or false')
    .refine((text) => Object.hasOwn(FLAGS, text.toLowerCase()), { error: 'must be true or false' })
    .transform((text) => FLAGS[text.toLowerCase()] === true)
    .meta({ type: 'boolean' })

/** A whole number in a query. */
export const wholeParameter = (min: number, max: number, error = `must be a whole number from ${min} to ${max}`) => {
  const isRight = (text: string) => /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max
  const meta = { type: 'integer', minimum: min, maximum: max, pattern: undefined } as const
  return text(9, error).refine(isRight, { error }).transform(Number).meta(meta)
}

/** Text that is harmless in the log, a terminal and a CSV file: no control or invisible characters. */
export const line = (max: number) =>
  text(4 * max, `must be 1 to ${max} characters long`)
    .transform((text) => text.trim())
    .refine((text) => text.length >= 1 && text.length <= max, { error: `must be 1 to ${max} characters long` })
    .refine((text) => !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(text), {
      error: 'must be one line, without control characters, line separators and invisible characters',
    })

/** A name of certificates, in any spelling. */
export const certificateName = () =>
  text(4 * 255, 'must be 1 to 255 characters long')
    .transform(canonicalName)
    .refine((name) => name.length >= 1 && name.length <= 255, { error: 'must be 1 to 255 characters long' })

export const serialNumber = () =>
  text(128, 'must be a serial number in hexadecimal')
    .refine((text) => parseSerialNumber(text) !== undefined, { error: 'must be a serial number in hexadecimal' })
    .transform((text) => parseSerialNumber(text) as string)

/** `when` of a rule about all members. The rule does not run beside a wrong member, which has its own error. */
export const whenSound = ({ issues }: { issues: readonly unknown[] }): boolean => issues.length === 0

/** An administrator's password. */
export const password = () => z.string().min(1).max(1024)

/** SHA-256 in hexadecimal, perhaps with colons. */
export const fingerprint = () =>
  text(128, 'must be a SHA-256 fingerprint in hexadecimal')
    .transform((text) => text.replaceAll(':', '').toLowerCase())
    .refine((text) => /^[0-9a-f]{64}$/.test(text), { error: 'must be a SHA-256 fingerprint in hexadecimal' })

const tag = () => text(40, TAG_RULE).refine(isTag, { error: TAG_RULE })

/** Without duplicates, in the order of the alphabet. */
export const tagList = () => boundedArray(tag(), MOST_TAGS).transform((tags) => [...new Set(tags)].sort())

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
