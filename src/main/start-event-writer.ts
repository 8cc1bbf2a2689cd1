/** The event writer of a thread, with its log lines and metrics. */

import type { Logger } from 'pino'
import { EventWriter } from '../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import type { Database } from '../store/database.ts'

export function createEventWriter(db: Pick<Database, 'query'>, log: Logger, metrics: Metrics): EventWriter {
  beginAtZero(metrics.eventsDropped)
  return new EventWriter({
    db,
    events: {
      dropped: (count) => metrics.eventsDropped.inc(count),
      postponed: (error) => log.warn({ err: error }, 'events could not be written'),
    },
  })
}
