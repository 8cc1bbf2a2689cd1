/**
 * Compares the database with what was decided, and deals with what it lacks. Until that is done nobody works in a database that
 * went back to an earlier time (docs/decisions/decisions-outlive-the-database.md).
 */

import type { AuditDetails } from '../../domain/audit-chain.ts'
import {
  ACME_ACTS,
  type AcmeAct,
  type DatabaseIdentity,
  type Decision,
  effectOf,
  type Outcome,
  type RestrictingAct,
} from '../../domain/decision.ts'
import { type DecisionPlaces, findMissing, type MissingDecision } from '../../services/decisions/decision-comparison.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { type Incarnation, readIncarnation } from '../../store/incarnation.ts'
import { type DatabasePool, isBusy, queriesOf } from '../../store/slonik.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { findMissing as missingDecisions } from './account-decisions.ts'
import { RESTORES } from './restores.ts'

interface CompareDecisionsParts extends DecisionPlaces {
  /** A pool that may work in a database not yet compared. */
  db: DatabasePool
  audit: AuditLog
  identity: DatabaseIdentity
}

/**
 * `restore` deals with all. `wait` does so too, but stops if a restricting decision is missing. `count` changes nothing.
 */
type DecisionMode = 'restore' | 'wait' | 'count'

export interface ComparedDecisions extends Incarnation {
  /** People worked in it while it was compared. */
  isOpen: boolean
  /** Everything is dealt with, so sessions begin in it. */
  isDone: boolean
  missing: readonly MissingDecision[]
  dealtWith: readonly DealtWith[]
  unreadable: number
}

/** @throws errors of database, signer and file; what was dealt with until then stays so */
export async function compareDecisions(parts: CompareDecisionsParts, mode: DecisionMode): Promise<ComparedDecisions> {
  const { db, audit } = parts
  const store = createDecisionStore(queriesOf(db))
  const place = await readIncarnation(queriesOf(db))
  const { incarnation, compared } = place
  const isAnother = compared !== null && compared !== incarnation
  const missingOfAcme = (decisions: readonly Decision[]) => missingIn(db, decisions)
  const { missing, unreadable, read } = await findMissing({ ...parts, place, store, missingOfAcme })
  const found = { ...place, isOpen: !isAnother, missing, unreadable }
  const restricts = missing.some(
    ({ decision, isOvertaken, isOwn }) => isOwn && !isOvertaken && effectOf(decision) === 'restricts',
  )
  if (mode === 'count' || (mode === 'wait' && restricts)) return { ...found, isDone: false, dealtWith: [] }
  // This entry comes first, so that an interrupted comparison does not look like a cut audit log.
  if (missing.length > 0) await leaveEntry(audit, { decisions_lacking: missing.length })
  const dealtWith = await bringBack(audit, missing, place)
  if (dealtWith.length > 0) await leaveEntry(audit, { decisions: countsOf(dealtWith) })
  await db.transaction(async (tx) => {
    const last = createDecisionStore(queriesOf(tx))
    await last.lock(incarnation)
    for (const { place: id, line } of read) if (id !== '') await last.move(id, line)
    await last.noteCompared(incarnation)
  })
  return { ...found, isDone: true, dealtWith }
}

async function missingIn(db: DatabasePool, decisions: readonly Decision[]): Promise<ReadonlySet<string>> {
  const missing = new Set<string>()
  for (const act of ACME_ACTS) {
    const ofAct = decisions.filter((one): one is Decision & { act: AcmeAct } => one.act === act)
    if (ofAct.length === 0) continue
    for (const id of await db.transaction((tx) => missingDecisions(queriesOf(tx), act, ofAct))) missing.add(id)
  }
  return missing
}

/** With this entry the watch accepts the new end of the log. */
const leaveEntry = (audit: AuditLog, details: AuditDetails): Promise<void> =>
  audit.record({ userId: undefined, ipAddress: undefined }, 'database.reconcile', details)

function countsOf(dealtWith: readonly DealtWith[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { outcome } of dealtWith) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}

interface DealtWith {
  decision: Decision
  outcome: Outcome
  /** Why it did not come back, though it restricts. */
  failure?: string
}

/** Decisions in one transaction. With one each, the new accounts of ten minutes would take a minute. */
const TOGETHER = 200

/**
 * Deals with decisions in order: what restricts comes back, what permits is listed, and each entry of the audit log is written
 * back as one of its own kind. An interrupted run is continued by the next one. One instance works at a time.
 * @throws when the database is away
 */
async function bringBack(
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
    return work(messageOf(error))
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
