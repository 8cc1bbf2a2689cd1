/**
 * Deals with decisions that a fail-over has lost: what restricts comes back, what permits is listed, and each entry of the audit
 * log is written back as one of its own kind (docs/decisions/decisions-outlive-the-database.md).
 */

import { type Decision, effectOf, type Outcome, type RestrictingAct } from '../../domain/decision.ts'
import type { MissingDecision } from '../../services/decisions/decision-comparison.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import type { Incarnation } from '../../store/incarnation.ts'
import { isBusy, queriesOf } from '../../store/slonik.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { RESTORES } from './restores.ts'

export interface DealtWith {
  decision: Decision
  outcome: Outcome
  /** Why it did not come back, though it restricts. */
  failure?: string
}

/** Decisions in one transaction. With one each, the new accounts of ten minutes would take a minute. */
const TOGETHER = 200

/**
 * Deals with decisions in order. An interrupted run is continued by the next one. One instance works at a time.
 * @throws when the database is away
 */
export async function bringBack(
  audit: AuditLog,
  missing: readonly MissingDecision[],
  { incarnation, compared, since }: Incarnation,
): Promise<DealtWith[]> {
  const dealtWith: DealtWith[] = []
  const deal = { audit, incarnation, since: compared === incarnation ? null : since }
  for (const group of groupsOf(missing)) dealtWith.push(...(await dealWith(deal, group)))
  return dealtWith
}

/** What restricts is a group of its own, so that one that fails undoes nothing else. */
function groupsOf(missing: readonly MissingDecision[]): MissingDecision[][] {
  const groups: MissingDecision[][] = []
  let open: MissingDecision[] | undefined
  for (const one of missing) {
    if (isToRestore(one)) {
      groups.push([one])
      open = undefined
    } else {
      if (!open || open.length === TOGETHER) {
        open = []
        groups.push(open)
      }
      open.push(one)
    }
  }
  return groups
}

const isToRestore = ({ decision, isOvertaken }: MissingDecision) => !isOvertaken && effectOf(decision) === 'restricts'

interface Deal {
  audit: AuditLog
  incarnation: string
  since: Date | null
}

const OF_A_COPY = 'it was decided in a copy of this database'

async function dealWith({ audit, incarnation, since }: Deal, group: readonly MissingDecision[]): Promise<DealtWith[]> {
  const nobody = { userId: undefined, ipAddress: undefined, username: 'the service' }
  const work = (failure?: string) =>
    audit.continueWithoutAuthor(nobody, async (tx, note) => {
      const store = createDecisionStore(queriesOf(tx))
      await store.lock(incarnation)
      const known = await store.dealtWith(group.map(({ decision }) => decision.id))
      const dealtWith: DealtWith[] = []
      for (const one of group.filter(({ decision }) => !known.has(decision.id))) {
        const reason = failure ?? (one.isOwn || !isToRestore(one) ? undefined : OF_A_COPY)
        const outcome = reason === undefined ? await outcomeOf(tx, one) : 'lost'
        const decision = reason === undefined ? one.decision : withFailure(one.decision, reason)
        dealtWith.push({ decision, outcome, ...(reason !== undefined && { failure: reason }) })
        writeBack(decision, outcome, note)
      }
      await store.noteLost(dealtWith, since)
      return dealtWith
    })
  try {
    return await work()
  } catch (error) {
    if (isBusy(error)) throw error
    // One failure must not keep the service closed. An operator is told to do this one by hand.
    return work(error instanceof Error ? error.message : String(error))
  }
}

const withFailure = (decision: Decision, failure: string): Decision => ({
  ...decision,
  details: { ...decision.details, not_brought_back: failure },
})

async function outcomeOf(tx: Transaction, one: MissingDecision): Promise<Outcome> {
  if (one.isOvertaken) return 'overtaken'
  const { decision } = one
  const effect = effectOf(decision)
  if (effect === 'permits') return 'lost'
  return effect === 'reports' ? 'entry' : RESTORES[decision.act as RestrictingAct](tx, decision)
}

function writeBack({ id, at, act, by, details, entry }: Decision, outcome: Outcome, note: Note): void {
  if (!entry) return
  const { sequence, mac, user_id, ip_address } = entry
  const place = { sequence, mac, id, user_id, ip_address }
  note('database.lost_entry', { ...place, at, action: act, by, outcome, details }, entry.target_user_id ?? undefined)
}
