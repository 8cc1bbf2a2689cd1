/**
 * Compares the database with what was decided, and deals with what it lacks. Until that is done nobody works in a database that
 * went back to an earlier time (docs/decisions/decisions-outlive-the-database.md).
 */

import type { AuditDetails } from '../../domain/audit-chain.ts'
import { ACME_ACTS, type AcmeAct, type DatabaseIdentity, type Decision, effectOf } from '../../domain/decision.ts'
import { type DecisionPlaces, findMissing, type MissingDecision } from '../../services/decisions/decision-comparison.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { type Incarnation, readIncarnation } from '../../store/incarnation.ts'
import { type DatabasePool, queriesOf } from '../../store/slonik.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { findMissing as missingDecisions } from './account-decisions.ts'
import { bringBack, type DealtWith } from './bring-back.ts'

export interface CompareDecisionsParts extends DecisionPlaces {
  /** A pool that may work in a database not yet compared. */
  db: DatabasePool
  audit: AuditLog
  identity: DatabaseIdentity
}

/**
 * `restore` deals with all. `wait` does so too, but stops if a restricting decision is missing. `count` changes nothing.
 */
export type DecisionMode = 'restore' | 'wait' | 'count'

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
