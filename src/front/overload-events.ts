/** What overload leaves in the log and in the metrics: a line when it begins and when it ends, and counters for the rest. */

import type { Logger } from 'pino'
import type { Metrics } from '../ops/metrics.ts'
import type { AdmissionEvents } from '../overload/admission.ts'
import type { PatienceEvents } from '../overload/patience.ts'

export interface OverloadEvents {
  admission: AdmissionEvents
  patience: PatienceEvents
  /** @param total since the start */
  connectionsRefused(total: number): void
}

export function overloadEvents(log: Logger, metrics: Metrics): OverloadEvents {
  let knownConnections = 0
  return {
    admission: {
      begun(facts) {
        metrics.overloadedThreads.set(1)
        log.warn({ event: 'overload_began', ...facts }, 'overload: requests are turned away')
      },
      ended(facts) {
        metrics.overloadedThreads.set(0)
        log.warn({ event: 'overload_ended', ...facts }, 'overload is over')
      },
      turnedAway: (reason, count) => metrics.requestsShed.inc({ reason }, count),
    },
    patience: {
      exhausted: (address) =>
        log.warn({ event: 'address_held_back', address }, 'too many requests from an address fail; it is held back'),
      refused: () => metrics.requestsShed.inc({ reason: 'failing_address' }),
    },
    connectionsRefused(total) {
      if (total > knownConnections) metrics.requestsShed.inc({ reason: 'connections' }, total - knownConnections)
      knownConnections = total
    },
  }
}
