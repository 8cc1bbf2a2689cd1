/** Options of an operation's command, made from the schemas of the descriptions. */

import { readFileSync } from 'node:fs'
import type { Schema } from '../../admin/described.ts'
import { isGiven, type Option } from '../../shared/command-line.ts'
import { oneOf, text } from '../values.ts'

/** Where it names no type, any of the first that is not null. */
function plain(schema: Schema, definitions: Readonly<Record<string, Schema>>): Schema {
  if (schema.$ref !== undefined)
    return plain(definitions[schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)] ?? {}, definitions)
  const choice = schema.anyOf?.find(({ type }) => type !== 'null')
  return choice ? plain(choice, definitions) : schema
}

export function optionFor(
  schema: Schema,
  definitions: Readonly<Record<string, Schema>>,
  isRequired: boolean,
): Option<unknown> {
  const { enum: known, type, format, items, default: fallback, const: only } = plain(schema, definitions)
  const sentence = (kind: string) =>
    [schema.description?.replace(/\.$/, '') ?? kind, ...(isRequired ? ['needed'] : [])].join('; ')
  if (known) return { sentence: sentence(known.join(', ')), read: oneOf(known.map(String)) }
  if (type === 'boolean' && (fallback === false || only === true)) return isGiven(sentence('Yes'))
  if (type === 'boolean') return { sentence: sentence('true or false'), read: flag }
  if (type === 'integer' || type === 'number') return { sentence: sentence('A number'), read: number }
  if (type === 'array' && plain(items ?? {}, definitions).type === 'string')
    return { sentence: sentence('A text; repeat for several'), read: text, kind: 'several' }
  if (type === 'object' || type === 'array')
    return { sentence: sentence('JSON, or @ and the name of a file'), read: json }
  return { sentence: sentence(KINDS[format ?? ''] ?? 'A text'), read: text }
}

const KINDS: Readonly<Record<string, string>> = { 'date-time': 'A time, or a date', uuid: 'A UUID' }

const flag = (value: string) => oneOf(['true', 'false'])(value) === 'true'

function number(value: string): number {
  if (/^-?\d{1,15}$/.test(value)) return Number(value)
  throw new Error('takes a whole number')
}

export function json(value: string): unknown {
  try {
    return JSON.parse(value.startsWith('@') ? readFileSync(value.slice(1), 'utf8') : value)
  } catch (error) {
    throw new Error(`takes JSON, or @ and the name of a file with it: ${(error as Error).message}`)
  }
}

/** What options mean, by the member's name, where its description says nothing. */
export const SENTENCES: Readonly<Record<string, string>> = {
  limit: 'Rows of a page',
  offset: 'Rows to pass over; --cursor goes further',
  cursor: 'Where the page before ended, as the last line says; empty to begin',
  enabled: 'true or false: whether the user may log in',
  expires_at: 'Date or time from which it is refused; never when absent',
  action: 'Only this action, such as certificate.revoke',
  user_id: 'Only of the user with this id',
  ip_address: 'Only from this address',
  eab_only: 'true for accounts with a credential of external account binding only',
  eab_kid: 'Only of the credential with this key id',
  contact: 'Only with this contact',
  created_before: 'Only made before this date or time',
  created_after: 'Only made after this date or time',
  account_id: 'Only of the account with this id',
  serial: 'Serial number in hexadecimal',
  fingerprint: 'SHA-256 of the certificate, in hexadecimal',
  expiring_before: 'Only what ends before this date or time',
  expiring_after: 'Only what ends after this date or time',
  issued_before: 'Only issued before this date or time',
  issued_after: 'Only issued after this date or time',
  revoked_after: 'Only revoked after this date or time',
  profile: 'Only of this CA profile',
  serial_numbers: 'Serial number in hexadecimal; repeat for several',
  domain: 'One of its names',
}
