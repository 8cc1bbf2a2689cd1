/** Which fault a finding belongs to, and what nobody was promised: the database may have gone back in time. */

import type { Happened } from './conduct.ts'
import type { Finding, Unpromised } from './finding.ts'
import { KINDS } from './kinds/table.ts'

export interface Attributed extends Finding {
  /** Index of the fault by which it happened; undefined for one before all faults. */
  fault: number | undefined
}

export interface Sorted {
  findings: Attributed[]
  unpromised: (Attributed & { unpromised: Unpromised })[]
}

export function attribute(found: readonly Finding[], faults: readonly Happened[]): Sorted {
  const sorted: Sorted = { findings: [], unpromised: [] }
  for (const finding of found) {
    const { unpromised } = finding
    const fault = causeOf(finding, faults)
    if (unpromised !== undefined && fault !== undefined && goesBack(faults[fault]))
      sorted.unpromised.push({ ...finding, unpromised, fault })
    else sorted.findings.push({ ...finding, fault })
  }
  return sorted
}

/** The last fault that was running then, until it was recovered from; else the last one before. */
function causeOf({ at, since = at, unpromised }: Finding, faults: readonly Happened[]): number | undefined {
  const running = faults.flatMap((fault, index) => (fault.beganAt <= at && recoveredAt(fault) >= since ? [index] : []))
  const back = unpromised && running.findLast((index) => goesBack(faults[index]))
  const index = back ?? running.at(-1) ?? faults.findLastIndex(({ beganAt }) => beganAt <= at)
  return index < 0 ? undefined : index
}

const recoveredAt = ({ endedAt, recoveryMs = Number.POSITIVE_INFINITY }: Happened) => endedAt + recoveryMs
const goesBack = (fault: Happened | undefined) => fault !== undefined && KINDS[fault.kind]?.goesBack === true
