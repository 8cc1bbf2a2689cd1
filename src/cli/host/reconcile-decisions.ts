/** The part of `chancery reconcile` that compares decisions. */

import { compareDecisions } from '../../admin/decisions/compare-decisions.ts'
import type { SignerRecords } from '../../ca/signer-records.ts'
import type { Config } from '../../config/schema.ts'
import { effectOf, subjectOf } from '../../domain/decision.ts'
import { DecisionFile } from '../../services/decisions/decision-file.ts'
import { decisionsFile } from '../../settings/signer-settings.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { Administration } from '../operator-database.ts'

interface Parts {
  config: Config
  administration: Administration
  records: SignerRecords
}

/** They come first: nobody works in the database until they were compared. */
export async function reconcileDecisions(
  { config, administration: { db, audit }, records }: Parts,
  isDryRun: boolean,
  say: (line: string) => void,
): Promise<Record<string, number>> {
  const path = decisionsFile(config)
  const file = path === undefined ? undefined : new DecisionFile(path)
  const identity = await createDecisionStore(queriesOf(db)).identity()
  const found = await compareDecisions({ db, audit, identity, records, file }, isDryRun ? 'count' : 'restore')
  const dealtWith = isDryRun
    ? found.lacking.map(({ decision, isOvertaken }) => ({
        decision,
        outcome: isOvertaken ? 'overtaken' : effectOf(decision),
      }))
    : found.dealtWith
  const counts: Record<string, number> = {}
  for (const { decision, outcome } of dealtWith) {
    counts[outcome] = (counts[outcome] ?? 0) + 1
    say(`decision     ${outcome.padEnd(9)}  ${decision.at}  ${decision.by}  ${decision.act}  ${subjectOf(decision)}`)
  }
  return counts
}
