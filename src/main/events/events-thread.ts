/** The events thread: delivers what happened to mail, hooks, logs and statistics. */

import type { Logger } from 'pino'
import { EventDelivery, type EventDeliveryOptions } from '../../events/delivery.ts'
import { createLogger } from '../../ops/logging.ts'
import { createMetrics, type Metrics } from '../../ops/metrics.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { spawn } from '../../runtime/actor.ts'
import { runThread } from '../../runtime/thread-entry.ts'
import { eventsDatabaseSettings } from '../../settings/event-settings.ts'
import { openCheckedDatabase } from '../../store/slonik.ts'
import type { EventsThreadData, EventsThreadMessages } from '../messages.ts'
import { type Consumers, consumersOf } from './consumers.ts'
import { Notifications } from './start-notifications.ts'

const MAILBOX_LIMIT = 64

runThread<EventsThreadData, EventsThreadMessages>(async ({ name, data, atExit }) => {
  const { config, instanceId, hooks } = data
  const metrics = createMetrics()
  const { log, flush } = createLogger(config.logging, name, { buffered: true, metrics })
  atExit(flush)
  const db = await openCheckedDatabase(eventsDatabaseSettings(config))
  const consumers = await consumersOf({ config, hooks, db, log, metrics })
  const delivery = new EventDelivery({ db, instanceId, ...consumers, events: deliveryEvents(log, metrics, consumers) })
  await delivery.start()
  const notifications = new Notifications({ config, db, log, metrics }, instanceId)
  await notifications.start(delivery)
  const actor = spawn<EventsThreadMessages>({
    name,
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: 4,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'events actor failed'),
    start: () => ({
      metrics: () => answerOf(metrics, 'events'),
      live: async (next) => {
        await notifications.apply(next, delivery)
        return undefined
      },
      smtp: () => notifications.smtp(),
    }),
  })
  return {
    actor,
    async drain(deadlineMs) {
      await Promise.all([delivery.stop(deadlineMs), notifications.stop(deadlineMs)])
      await consumers.close()
      await db.end()
    },
  }
})

function deliveryEvents(
  log: Logger,
  metrics: Metrics,
  consumers: Pick<Consumers, 'buried'>,
): EventDeliveryOptions['events'] {
  return {
    delivered(consumer, { kind, id }) {
      metrics.eventDeliveries.inc({ consumer, result: 'delivered' })
      log.debug({ consumer, kind, eventId: id }, 'event delivered')
    },
    postponed(consumer, { kind, id }, error) {
      metrics.eventDeliveries.inc({ consumer, result: 'postponed' })
      log.warn(
        { event: 'event_postponed', consumer, kind, eventId: id, reason: reasonOf(error) },
        'event not delivered yet',
      )
    },
    buried(consumer, event, error) {
      const { kind, id } = event
      consumers.buried(consumer, event, error)
      metrics.eventDeliveries.inc({ consumer, result: 'dead' })
      log.error({ event: 'event_dead', consumer, kind, eventId: id, reason: reasonOf(error) }, 'event not delivered')
    },
    misfit: (consumer, { kind, id, misfit }) =>
      log.error(
        { event: 'event_misfit', consumer, kind, eventId: id, reason: misfit },
        'the payload of an event is not as described; no mail is made of it',
      ),
    failed: (consumer, error) => log.warn({ consumer, err: error }, 'events could not be read'),
    abandoned: (names) =>
      log.warn(
        { event: 'consumers_abandoned', consumers: names },
        'events of consumers without an instance were removed',
      ),
  }
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
