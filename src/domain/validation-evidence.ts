/**
 * The record of a validation attempt: what was asked, of whom, what was found, how long it took, the verdict.
 *
 * Every attempt's goes to the log; the one that decides is kept with the authorization. Targets choose much of what stands
 * in it (names in DNS, a Location, a hundred records), so it is cut to a bound: long texts, long lists, and then steps from
 * the middle, because the first say what was asked and the last what was decided.
 */

import type { ChallengeType } from '../protocol/challenge.ts'
import type { ProblemType } from '../protocol/problem.ts'

/** One step of an attempt as a validator reports it. */
export interface FoundStep {
  step: string
  [fact: string]: unknown
}

/** Also the JSON the database keeps. */
export interface ValidationRecord {
  type: ChallengeType
  /** 1 for the first attempt. */
  attempt: number
  /** RFC 3339; when the attempt began. */
  at: string
  /** From the hand-over to the verdict. */
  ms: number
  /** `retry`: failed, and another attempt follows. */
  result: 'valid' | 'invalid' | 'retry'
  problem?: ProblemType
  detail?: string
  /** How long the proof is good for, where what was found bounds it. */
  validForSeconds?: number
  /** Of the request that triggered the challenge. */
  requestId: string
  steps: FoundStep[]
  /** Steps that were left out. */
  omitted?: number
}

/** UTF-16 code units of the JSON; PostgreSQL keeps this much compressed outside the row. */
export const MAX_RECORD_LENGTH = 8192
const MAX_TEXT_LENGTH = 512
const MAX_ITEMS = 32
const MAX_DEPTH = 6
/** The texts of the record itself, in its JSON. */
const MEMBERS_LENGTH = 2048

/** The same record with what the target chose cut to size, and without what PostgreSQL refuses in jsonb. */
export function boundRecord(record: ValidationRecord): ValidationRecord {
  const steps = record.steps.map((step) => bound(step, 0) as FoundStep)
  const lengths = steps.map((step) => JSON.stringify(step).length + 1)
  let room = MAX_RECORD_LENGTH - MEMBERS_LENGTH - lengths.reduce((sum, length) => sum + length, 0)
  let omitted = 0
  while (room < 0 && steps.length > 0) {
    const middle = steps.length >> 1
    room += lengths.splice(middle, 1)[0] as number
    steps.splice(middle, 1)
    omitted++
  }
  return {
    ...record,
    ...(record.detail !== undefined && { detail: boundText(record.detail) }),
    requestId: boundText(record.requestId),
    steps,
    ...(omitted > 0 && { omitted }),
  }
}

function bound(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return boundText(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth === MAX_DEPTH) return '…'
  if (Array.isArray(value)) {
    const kept = value.slice(0, MAX_ITEMS).map((item) => bound(item, depth + 1))
    return value.length > MAX_ITEMS ? [...kept, `… ${value.length - MAX_ITEMS} more`] : kept
  }
  const members = Object.entries(value).slice(0, MAX_ITEMS)
  return Object.fromEntries(members.map(([name, member]) => [boundText(name), bound(member, depth + 1)]))
}

/** jsonb takes neither U+0000 nor half a surrogate pair; the other control characters would reach an operator's terminal. */
function boundText(text: string): string {
  const cut = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH - 1)}…` : text
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return cut.replace(/[\u0000-\u001f\u007f-\u009f]|\p{Surrogate}/gu, '\ufffd')
}
