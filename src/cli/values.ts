/** What the command line of chancery means: common options, and checks of values. */

import { isGiven, optional, type Values } from '../shared/command-line.ts'
import { isUuid } from '../shared/lib/uuid.ts'
import { parseTimestamp } from '../shared/protocol/timestamp.ts'

/** Ends a command with sentences for the operator. */
export class CommandError extends Error {}

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

/** Of every command that needs the host. */
export const COMMON = {
  config: { ...optional('Configuration file (YAML or JSON); SERVICE_CONFIG when absent', file), letter: 'c' },
  debug: isGiven('Print stack traces of errors, and log at DEBUG'),
  'validate-only': isGiven('Check the configuration file, print what it says in short, and do nothing else'),
}
export const PRINTING = { json: isGiven('Print JSON'), ...COMMON }

export type CommonOptions = Values<typeof COMMON>
export type Printing = Values<typeof PRINTING>
