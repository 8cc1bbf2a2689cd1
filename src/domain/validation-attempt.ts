/**
 * A validation attempt: whether another follows it, and its record of questions, answers, duration and verdict.
 *
 * Every record is logged; the deciding one is kept with the authorization. Targets choose much of its content (names in
 * DNS, a Location, a hundred records), so it is cut. First long texts and lists are cut, then steps from the middle:
 * the first steps show the question, the last ones the decision.
 */

import type { ChallengeType } from '../shared/protocol/challenge.ts'
import type { ProblemType } from '../shared/protocol/problem.ts'

export interface ValidationPolicy {
  /** Attempts after the first, by type; an absent type has none. */
  maxRetries: Readonly<Record<string, number>>
  /** Total time of attempts after which no other follows, by type; an absent type has no bound. */
  maxSpentMs?: Readonly<Record<string, number>>
  backoffBaseMs: number
  backoffMaxMs: number
}

/** @param spentMs total time of the failed tries, without the waits between them */
export function isTriedAgain(type: string, failedTries: number, spentMs: number, policy: ValidationPolicy): boolean {
  const { maxRetries, maxSpentMs = {} } = policy
  return failedTries <= (maxRetries[type] ?? 0) && spentMs < (maxSpentMs[type] ?? Number.POSITIVE_INFINITY)
}

/** @param failedTries at least 1; the delay doubles with each. */
export function retryDelayMs(failedTries: number, { backoffBaseMs, backoffMaxMs }: ValidationPolicy): number {
  return Math.min(backoffBaseMs * 2 ** (failedTries - 1), backoffMaxMs)
}

/** One step of an attempt as a validator reports it. */
interface FoundStep {
  step: string
  [fact: string]: unknown
}

/** Also the JSON the database keeps. */
export interface ValidationRecord {
  type: ChallengeType
  /** 1 for the first attempt. */
  attempt: number
  /** Time of the verdict, RFC 3339. */
  at: string
  /** Milliseconds from the hand-over to the verdict. */
  ms: number
  /** The metric names it so; `retry`: failed, and another attempt follows. */
  result: 'success' | 'retry' | 'failure'
  problem?: ProblemType
  detail?: string
  /** Result of the CAA records, where they were looked up (workers/job.ts). */
  caa?: 'permitted' | 'excepted' | 'forbidden' | 'failed'
  /** How long the proof is valid, where its content bounds it. */
  validForSeconds?: number
  /** Id of the request that triggered the challenge. */
  requestId: string
  steps: FoundStep[]
  /** Number of steps left out. */
  omitted?: number
}

/** UTF-16 code units of the JSON; PostgreSQL keeps this much compressed outside the row. */
export const MAX_RECORD_LENGTH = 8192
/** UTF-16 code units of a text, items of a list. A record too long after the wide cut gets the narrow one. */
const WIDE = { text: 512, items: 32 }
const NARROW = { text: 128, items: 8 }
type Cut = typeof WIDE
const MAX_DEPTH = 4
/** Leaves 4096 for the record's own texts in JSON. */
const STEPS_LENGTH = MAX_RECORD_LENGTH - 4096

/** Finds C1, and in JSON any escape but of a quote or backslash: a control character or lone surrogate. */
const SUSPECT = /\\[^"\\]|[\u007f-\u009f]/

/** Cuts what the target chose, and replaces what PostgreSQL refuses in jsonb. */
export function boundRecord(record: ValidationRecord): ValidationRecord {
  const json = JSON.stringify(record)
  if (json.length <= MAX_RECORD_LENGTH && !SUSPECT.test(json)) return record
  return {
    ...record,
    ...(record.detail !== undefined && { detail: boundText(record.detail, WIDE) }),
    requestId: boundText(record.requestId, NARROW),
    ...boundSteps(record.steps),
  }
}

/** Bounds steps without a record, such as a CAA check at finalize. */
export function boundSteps(all: readonly FoundStep[]): Pick<ValidationRecord, 'steps' | 'omitted'> {
  const stepsIn = (cut: Cut) => all.map((step) => bound(step, 0, cut) as FoundStep)
  const wide = stepsIn(WIDE)
  const steps = lengthOf(wide) <= STEPS_LENGTH ? wide : stepsIn(NARROW)
  const omitted = dropFromMiddle(steps)
  return { steps, ...(omitted > 0 && { omitted }) }
}

const lengthOf = (value: unknown) => JSON.stringify(value).length

/** @returns how many steps were dropped so that the others fit */
function dropFromMiddle(steps: FoundStep[]): number {
  const lengths = steps.map((step) => lengthOf(step) + 1)
  let length = lengths.reduce((sum, one) => sum + one, 0)
  let dropped = 0
  for (; length > STEPS_LENGTH; dropped++) {
    const middle = steps.length >> 1
    length -= lengths.splice(middle, 1)[0] as number
    steps.splice(middle, 1)
  }
  return dropped
}

function bound(value: unknown, depth: number, cut: Cut): unknown {
  if (typeof value === 'string') return boundText(value, cut)
  if (typeof value !== 'object' || value === null) return value
  if (depth === MAX_DEPTH) return '…'
  if (Array.isArray(value)) {
    const kept = value.slice(0, cut.items).map((item) => bound(item, depth + 1, cut))
    return value.length > cut.items ? [...kept, `… ${value.length - cut.items} more`] : kept
  }
  const members = Object.entries(value).slice(0, cut.items)
  return Object.fromEntries(members.map(([name, member]) => [boundText(name, cut), bound(member, depth + 1, cut)]))
}

/** jsonb refuses U+0000 and lone surrogates; other control characters would reach an operator's terminal. */
function boundText(text: string, cut: Cut): string {
  const short = text.length > cut.text ? `${text.slice(0, cut.text - 1)}…` : text
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return short.replace(/[\u0000-\u001f\u007f-\u009f]|\p{Surrogate}/gu, '\ufffd')
}
