/** Overload in metrics and log, with a log line when it begins and when it ends. */

import type { Logger } from 'pino'
import type { Metrics } from '../ops/metrics.ts'
import type { OverloadEvents } from '../overload/overload-control.ts'

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
    budget: {
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
