/**
 * Building blocks of the configuration schema. One call makes a setting: type, default, bounds,
 * unit, reload class and the manual's sentence.
 */

import { isIP } from 'node:net'
import * as z from 'zod/v4'
import type { FieldNotes } from '../shared/config-file/schema-node.ts'

/** Adds the manual's sentence and the notes to a schema. */
export function setting<T extends z.ZodType>(schema: T, description: string, notes: FieldNotes = {}): T {
  return schema.meta({ description, ...notes })
}

/** A section of the file. Without it, each of its keys has its default. */
export const section = <S extends z.ZodRawShape>(description: string, shape: S) =>
  z
    .strictObject(shape)
    // The type cannot tell that every key has a default.
    .prefault({} as never)
    .meta({ description })

/** An entry of a list or of a table of names, or a section that has to be there. */
export const entry = <S extends z.ZodRawShape>(description: string, shape: S) =>
  z.strictObject(shape).meta({ description })

const MAX_PORT = 65535
export const port = (value: number) => z.int().min(1).max(MAX_PORT).default(value)
export const optionalPort = () => optionalWhole(1, MAX_PORT)
export const whole = (min: number, value: number) => z.int().min(min).default(value)
export const seconds = (min: number, value: number, description: string, notes: FieldNotes = {}) =>
  setting(whole(min, value), description, { unit: 'seconds', ...notes })
export const flag = (value: boolean) => z.boolean().default(value)
export const text = (value: string) => z.string().min(1).default(value)
export const choice = <const T extends readonly [string, ...string[]]>(values: T, value: T[number]) =>
  z.enum(values).default(value as z.output<z.ZodEnum<{ [K in T[number]]: K }>>)

/** A text that may be omitted, then null. An empty text counts as omitted, because an empty variable yields one. */
export function optionalText(test: (value: string) => boolean = () => true) {
  return z
    .string()
    .refine((value) => value === '' || test(value))
    .nullable()
    .default(null)
    .transform((value) => (value === '' ? null : value))
}

export const optionalWhole = (min: number, max?: number) =>
  (max === undefined ? z.int().min(min) : z.int().min(min).max(max)).nullable().default(null)

/** A list with a default. Entries are checked one by one, so that an error names the entry. */
export const list = <T extends z.ZodType>(entry: T, value: z.output<T>[] = []) =>
  z.array(entry).default(() => [...value])

/** A list of at least one of the given names. */
export const someOf = <const T extends readonly [string, ...string[]]>(values: T, defaults: readonly T[number][]) =>
  z
    .array(z.enum(values))
    .min(1)
    .default(() => [...defaults] as z.output<z.ZodEnum<{ [K in T[number]]: K }>>[])

/** A text checked by a predicate; `expects` describes a right text. */
export const checkedText = (expects: string, test: (value: string) => boolean) =>
  z.string().refine(test).meta({ expects })

export function isHttpUrl(value: string): boolean {
  try {
    return ['http:', 'https:'].includes(new URL(value).protocol)
  } catch {
    return false
  }
}

export const HTTP_URL = 'an http:// or https:// URL'
export const httpUrl = () => checkedText(HTTP_URL, isHttpUrl)

/** Address, or address and prefix length. */
export function isNetwork(value: string): boolean {
  const [address = '', prefix, ...rest] = value.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  if (prefix === undefined) return true
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128)
}

/** `ip`, `ip:port`, `[v6]`, `[v6]:port`. */
export function isResolver(value: string): boolean {
  if (isIP(value) !== 0) return true
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[^:]+))(?::(?<port>\d{1,5}))?$/.exec(value)
  if (match?.groups === undefined) return false
  const { v6, v4, port: digits } = match.groups
  const portFits = digits === undefined || (Number(digits) >= 1 && Number(digits) <= MAX_PORT)
  return portFits && (v6 === undefined ? isIP(v4 ?? '') === 4 : isIP(v6) === 6)
}

export const resolverList = () => list(checkedText('an IP address, ip:port or [ipv6]:port', isResolver))

/** A path inside the URL space: leading `/`, no trailing `/`, no character that needs escaping. */
export const isUrlPath = (value: string) => /^(?:\/[A-Za-z0-9._~-]+)+$/.test(value)
export const URL_PATH = 'a path such as /acme: a slash first, none last'
export const urlPath = (value: string) => z.string().refine(isUrlPath).default(value).meta({ expects: URL_PATH })

export { isMailAddress as isEmail, MAIL_ADDRESS as EMAIL } from '../shared/lib/bounded.ts'

/** LDH labels separated by dots. Sections that allow a leading dot handle it themselves. */
export const isDomain = (value: string) =>
  value.length <= 253 &&
  /^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$/.test(value)

export const HASHES = ['sha256', 'sha384', 'sha512'] as const
export const SERIAL_SOURCES = ['random', 'database'] as const
