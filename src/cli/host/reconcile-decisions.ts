/** The part of `chancery reconcile` that compares decisions. */

import { AuditLog } from '../../admin/audit/audit-log.ts'
import { compareDecisions } from '../../admin/decisions/compare-decisions.ts'
import type { SignerRecords } from '../../ca/signer-records.ts'
import type { Config } from '../../config/schema.ts'
import { effectOf, subjectOf } from '../../domain/decision.ts'
import { DecisionFile } from '../../services/decisions/decision-file.ts'
import { auditKeyOf } from '../../settings/admin-settings.ts'
import { decisionsFile } from '../../settings/signer-settings.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { type Administration, withAdministration } from '../operator-database.ts'
import { tell } from '../printing.ts'
import type { Printing } from '../values.ts'

interface Parts {
  config: Config
  administration: Administration
  /** The records are undefined where no certificate is signed here, or the signer keeps none. */
  records: SignerRecords | undefined
}

/** Decisions come before certificates: nobody works in the database until they were compared. */
export async function reconcileDecisions(
  { config, administration: { db }, records }: Parts,
  isDryRun: boolean,
  say: (line: string) => void,
): Promise<Record<string, number>> {
  const file = new DecisionFile(decisionsFile(config))
  // A decision that is written back is in its record already.
  const audit = new AuditLog(db, auditKeyOf(config))
  const identity = await createDecisionStore(queriesOf(db)).identity()
  const found = await compareDecisions({ db, audit, identity, records, file }, isDryRun ? 'count' : 'restore')
  const dealtWith = isDryRun
    ? found.missing.map(({ decision, isOvertaken }) => ({
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

/** Compares with the file alone, where the signer keeps no records. @returns the exit code */
export async function reconcileFile(config: Config, options: Printing & { 'dry-run': boolean }): Promise<number> {
  const say = (line: string) => options.json || console.log(line)
  const isDryRun = options['dry-run']
  const found = await withAdministration(
    config,
    (administration) => reconcileDecisions({ config, administration, records: undefined }, isDryRun, say),
    'current',
    'any',
  )
  tell(options.json, { decisions: found }, toldCounts(found) || 'no decision is missing')
  return isDryRun && Object.keys(found).length > 0 ? 1 : 0
}

/** Empty for none. */
export function toldCounts(decisions: Readonly<Record<string, number>>): string {
  const counted = Object.entries(decisions).map(([outcome, count]) => `${count} ${outcome}`)
  return counted.length > 0 ? `decisions: ${counted.join(', ')}` : ''
}
