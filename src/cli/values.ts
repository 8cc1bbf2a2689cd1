/** Options that many commands have, and what reads the values of options. */

import { readFileSync } from 'node:fs'
import type { FieldError } from '../domain/admin-error.ts'
import { isGiven, optional, UsageError, type Values } from '../shared/command-line.ts'
import { isUuid } from '../shared/lib/uuid.ts'
import { parseTimestamp } from '../shared/protocol/timestamp.ts'

/** Ends a command with sentences for the operator. */
export class CommandError extends Error {}

/** The Admin API has refused an operation. */
export class Refusal extends CommandError {
  /** The HTTP status. */
  readonly status: number
  readonly fields: readonly FieldError[]
  /** A bad request is wrong usage of the command line. */
  readonly exitCode: 1 | 2

  constructor(message: string, status: number, fields: readonly FieldError[] = []) {
    super(message)
    this.status = status
    this.exitCode = status === 400 ? 2 : 1
    this.fields = fields
  }
}

function check<T>(isRight: boolean, value: T, what: string): T {
  if (!isRight) throw new Error(what)
  return value
}

export const text = (value: string): string => check(value !== '', value, 'takes a text')

export const port = (value: string): number => whole(1, 65535, 'takes a port number')(value)

export const whole = (least: number, most: number, what = `takes a whole number from ${least} to ${most}`) => {
  return (value: string): number => check(/^\d+$/.test(value) && +value >= least && +value <= most, +value, what)
}

export const uuid = (value: string): string => check(isUuid(value.toLowerCase()), value.toLowerCase(), 'takes a UUID')

export const oneOf = <const K extends readonly string[]>(known: K) => {
  return (value: string): K[number] => check(known.includes(value), value, `is one of ${known.join(', ')}`)
}

export const flag = (value: string): boolean => oneOf(['true', 'false'])(value) === 'true'

export function json(value: string): unknown {
  try {
    return JSON.parse(value.startsWith('@') ? readFileSync(value.slice(1), 'utf8') : value)
  } catch (error) {
    throw new Error(`takes JSON, or @ and the name of a file with it: ${(error as Error).message}`)
  }
}

/** Hexadecimal as openssl writes it: either case, with or without colons. */
export function hex(value: string): Buffer {
  const digits = value.replaceAll(':', '')
  return Buffer.from(check(/^(?:[0-9a-f]{2})+$/i.test(digits), digits, 'takes pairs of hexadecimal digits'), 'hex')
}

/** A date without time means midnight in UTC. */
export function instant(value: string): Date {
  const at = parseTimestamp(/^\d{4}-\d{2}-\d{2}$/.test(value) ? `${value}T00:00:00Z` : value)
  if (at) return at
  throw new Error('takes a date or an RFC 3339 time such as 2026-01-31T12:00:00Z')
}

const file = (text: string): string => check(text !== '', text, 'takes one file name')

/** The options of every command with a configuration file. */
export const COMMON = {
  config: { ...optional('Configuration file (YAML or JSON); SERVICE_CONFIG when absent', file), letter: 'c' },
  debug: isGiven('Print stack traces of errors, and log at DEBUG'),
  'validate-only': isGiven('Check the configuration file, print a summary of it, and do nothing else'),
}
export const PRINTING = { json: isGiven('Print JSON'), ...COMMON }

export type CommonOptions = Values<typeof COMMON>
export type Printing = Values<typeof PRINTING>

/** The target of a grant: an account by its id, or a credential by its key id. */
export const TARGET = {
  account: optional('Account id, the last part of the account URL', uuid),
  eab: optional('Key id of a credential of external account binding', text),
}
export type GrantTarget = Values<typeof TARGET>

/** @throws UsageError for neither and for both */
export function requireOneTarget({ account, eab }: GrantTarget): void {
  if ((account === undefined) === (eab === undefined)) throw new UsageError('give either --account ID or --eab KID')
}

export function accountTarget(id = ''): GrantTarget {
  if (isUuid(id.toLowerCase())) return { account: id.toLowerCase(), eab: undefined }
  throw new UsageError(`${JSON.stringify(id)} is no account id; it is the last part of the account URL`)
}

/** Names the account when there is none. */
export function ofAccount<T>(accountId: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    const isUnknown = error instanceof Refusal && error.status === 404
    throw isUnknown ? new CommandError(`there is no account ${accountId}`) : error
  })
}
