/** Helpers of the functions that bring a decision back (docs/decisions/decisions-outlive-the-database.md). */

import * as z from 'zod/v4'
import type { Decision, Outcome } from '../../domain/decision.ts'
import type { Transaction } from '../audit/audit-log.ts'

type Restored = Exclude<Outcome, 'entry'>

/** Brings back what a decision restricts. Runs in a transaction; idempotent. @returns what became of it */
export type Restore = (tx: Transaction, decision: Decision) => Promise<Restored>

/** A decision that was too long for its record has lost its details, and is reported as lost. */
export const restoring =
  <T>(
    details: z.ZodType<T>,
    restore: (tx: Transaction, details: T, decision: Decision) => Promise<Restored>,
  ): Restore =>
  async (tx, decision) => {
    const parsed = details.safeParse(decision.details)
    return parsed.success ? restore(tx, parsed.data, decision) : 'lost'
  }

/** For what happens whole or not at all. */
export const restoredIf = (isChanged: boolean): Restored => (isChanged ? 'restored' : 'overtaken')

/** @param isWhole nothing that it permits is missing */
export function restoredAs({ isChanged, isWhole }: { isChanged: boolean; isWhole: boolean }): Restored {
  if (isChanged) return isWhole ? 'restored' : 'partly'
  return isWhole ? 'overtaken' : 'lost'
}

/** A member of an entry that has it before and after. */
export const changed = <T>(value: z.ZodType<T>) => z.object({ before: value, after: value }).optional()

interface TagChange {
  before: readonly string[]
  after: readonly string[]
}

/** Takes tags away and adds none: each shows a row to another registrar. */
export function withoutRemoved(now: readonly string[], { before, after }: TagChange = { before: [], after: [] }) {
  const tags = now.filter((tag) => after.includes(tag) || !before.includes(tag))
  return { tags, isChanged: tags.length < now.length, isWhole: after.every((tag) => tags.includes(tag)) }
}
