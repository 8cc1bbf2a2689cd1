/** Hourly counts by kind, the texts of alarms, and the last failures of each account: for the console. */

import type { CommonQueryMethods } from 'slonik'
import { EVENT_KINDS, FAILURE_KINDS, type OccurredEvent } from '../domain/event.ts'
import { addAccountFailures, addEventCounts, addRaisedAlarms } from '../store/event-statistics-store.ts'
import type { DatabaseConsumer } from './consumer.ts'

const failures = new Set<string>(FAILURE_KINDS)

export const STATISTICS: DatabaseConsumer = {
  name: 'statistics',
  kinds: EVENT_KINDS,
  async take(events: readonly OccurredEvent[], tx: CommonQueryMethods): Promise<void> {
    await addEventCounts(tx, events)
    const failed = events.filter(({ kind, accountId }) => accountId !== undefined && failures.has(kind))
    const alarms = events.filter((event) => event.kind === 'alarm')
    if (alarms.length > 0) await addRaisedAlarms(tx, alarms)
    if (failed.length > 0) await addAccountFailures(tx, failed)
  },
}
