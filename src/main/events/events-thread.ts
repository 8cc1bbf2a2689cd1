/** The events thread: delivers what happened to mail, hooks, logs and statistics. */

import type { Logger } from 'pino'
import { EventDelivery, type EventDeliveryOptions } from '../../events/delivery.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { runThread } from '../../runtime/thread-entry.ts'
import { eventsDatabaseSettings } from '../../settings/event-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { openCheckedDatabase } from '../../store/slonik.ts'
import type { EventsThreadData, EventsThreadMessages } from '../messages.ts'
import { beginThread, threadActor } from '../parts.ts'
import { type Consumers, consumersOf, Notifications } from './consumers.ts'

const MAILBOX_LIMIT = 64

runThread<EventsThreadData, EventsThreadMessages>(async ({ name, data, atExit }) => {
  const { config, instanceId, hooks } = data
  const { parts, log, metrics, drain } = beginThread({ name, data, atExit })
  const db = parts.add('database', await openCheckedDatabase(eventsDatabaseSettings(config)), (one) => one.end())
  const context = { config, db, log, metrics }
  const consumers = parts.add('consumers', await consumersOf({ ...context, hooks }), (one) => one.close())
  const delivery = new EventDelivery({ db, instanceId, ...consumers, events: deliveryEvents(log, metrics, consumers) })
  const notifications = new Notifications(context, instanceId)
  parts.add('deliveries', [delivery, notifications], (both, deadlineMs) =>
    Promise.all(both.map((one) => one.stop(deadlineMs))),
  )
  await delivery.start()
  await notifications.start(delivery)
  const actor = threadActor<EventsThreadMessages>(log, {
    name,
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: 4,
    start: () => ({
      metrics: () => answerOf(metrics, 'events'),
      live: async (next) => {
        await notifications.apply(next, delivery)
        return undefined
      },
      smtp: () => notifications.smtp(),
    }),
  })
  return { actor, drain }
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
        { event: 'event_postponed', consumer, kind, eventId: id, reason: messageOf(error) },
        'event not delivered yet',
      )
    },
    buried(consumer, event, error) {
      const { kind, id } = event
      consumers.buried(consumer, event, error)
      metrics.eventDeliveries.inc({ consumer, result: 'dead' })
      log.error({ event: 'event_dead', consumer, kind, eventId: id, reason: messageOf(error) }, 'event not delivered')
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
