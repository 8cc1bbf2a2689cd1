/** `/workers`: background tasks of all instances, and what waits for consumers of events. */

import * as z from 'zod/v4'
import { type ConsumerBacklog, isBehind } from '../../domain/alarms.ts'
import { MOST_WAITING, readWorkers } from '../../store/background-run-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { time, timeOrNull, timestamp } from '../schemas.ts'

/** The events that wait for a consumer, in this reply and in `/overview`. */
export const Backlog = z.strictObject({
  name: z.string(),
  waiting: z.int().meta({ description: `Events that wait, at most ${MOST_WAITING}.` }),
  more: z.boolean().meta({ description: 'True when more may wait than were counted.' }),
  oldest_seconds: z.int(),
  behind: z.boolean().meta({ description: 'True when the oldest has waited longer than between any two attempts.' }),
})

export const backlogBody = (backlog: ConsumerBacklog): z.input<typeof Backlog> => ({
  name: backlog.name,
  waiting: backlog.waiting,
  more: backlog.waiting >= MOST_WAITING,
  oldest_seconds: backlog.oldestSeconds,
  behind: isBehind(backlog),
})

const Workers = z
  .strictObject({
    tasks: z.array(
      z.strictObject({
        name: z.string(),
        leader: z.int().meta({ description: 'Instance that ran it last.' }),
        leader_is_alive: z.boolean(),
        last_run: timestamp(),
        next_run: timestamp(),
        errors: z.int().meta({ description: 'Failed runs.' }),
        last_error: z.string().nullable(),
        failed_at: timestamp().nullable(),
      }),
    ),
    consumers: z.array(Backlog),
  })
  .meta({ id: 'Workers' })

export const WORKERS = endpointGroup('Operation', {
  getWorkers: endpoint({
    route: 'GET /workers',
    permission: 'read',
    reply: { status: 200, schema: Workers },
    async handle(_request, { db }) {
      const { tasks, consumers } = await readWorkers(queriesOf(db))
      return {
        body: {
          tasks: tasks.map(({ name, leader, leaderIsAlive, lastRunAt, nextRunAt, errors, lastError, failedAt }) => ({
            name,
            leader,
            leader_is_alive: leaderIsAlive,
            last_run: time(lastRunAt),
            next_run: time(nextRunAt),
            errors,
            last_error: lastError,
            failed_at: timeOrNull(failedAt),
          })),
          consumers: consumers.map(backlogBody),
        },
      }
    },
  }),
})
