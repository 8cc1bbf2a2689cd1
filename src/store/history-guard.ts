/**
 * Begins orders whose CSR profile asks for the history of issuance (docs/csr-profiles.md).
 *
 * Finalize has asked before, but six at once with one key all found it new. Here they begin one
 * after the other, among all instances, and each sees what the one before has begun.
 */

import type { Batched, CommandTraits } from '../shared/lib/batcher.ts'
import { HISTORY, type HistoryRow, type IssuanceHistoryQuery, valuesOfHistory } from './csr-profile-store.ts'
import { batched, type Database, type Statement } from './database.ts'

/** Conditions on the history at the moment in which an order begins. */
export interface HistoryDemands extends IssuanceHistoryQuery {
  keyIsNew: boolean
  isDue: boolean
}

const LOCK: Statement = { name: 'history-lock', text: 'SELECT pg_advisory_xact_lock(712103)' }

type Transaction = Pick<Database, 'query'>

/** @param begin false when the order is not ready */
export function beginsByHistory<C>(
  db: Database,
  demandsOf: (command: C) => HistoryDemands,
  begin: (tx: Transaction, command: C) => Promise<boolean>,
  traits: CommandTraits<C>,
): Batched<C, boolean> {
  const flush = (commands: readonly C[]) =>
    db.transaction(async (tx) => {
      await tx.query(LOCK, [])
      const begun: boolean[] = []
      for (const command of commands) begun.push((await allows(tx, demandsOf(command))) && (await begin(tx, command)))
      return begun
    })
  // They wait for one lock: eight at once would hold that many connections of a front, and begin nothing sooner.
  return batched(db, flush, { ...traits, maxConcurrent: 1 })
}

async function allows(tx: Transaction, { keyIsNew, isDue, ...query }: HistoryDemands): Promise<boolean> {
  const [history] = await tx.query<HistoryRow>(HISTORY, valuesOfHistory([query]))
  if (!history) throw new Error('the history of issuance has no answer')
  return !(keyIsNew && history.key_certified) && !(isDue && history.not_due)
}
