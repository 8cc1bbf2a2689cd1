/** What a run beside an abuser says, as plain data. */

import type { Measured } from '../report/summary.ts'
import type { AbuseKind, AbuserReport } from './messages.ts'

export interface AbuseResult {
  server: string
  kind: AbuseKind
  connections: number
  pauseMs: number
  /** Well-behaved clients: in each round first alone, then beside the abuser, so the second ratio of each figure is what they are left. */
  others: Measured
  /** One for each round. */
  abuser: AbuserReport[]
}
