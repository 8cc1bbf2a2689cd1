/** SQL of background work: when tasks ran, and what waits for consumers of events. */

import type { ConsumerBacklog, TaskRuns, TaskStatus, WorkersStatus } from '../domain/alarms.ts'
import type { Database, Statement } from './database.ts'

const RECORD: Statement = {
  name: 'background-runs-record',
  text: `
    INSERT INTO background_runs AS b (task, instance_id, last_run_at, next_run_at, errors, last_error, failed_at)
    SELECT task, $1, last_run_at, next_run_at, errors, last_error, CASE WHEN errors > 0 THEN last_run_at END
      FROM unnest($2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::text[])
        AS r (task, last_run_at, next_run_at, errors, last_error)
     ORDER BY task
    ON CONFLICT (task) DO UPDATE SET instance_id = EXCLUDED.instance_id, last_run_at = EXCLUDED.last_run_at,
      next_run_at = EXCLUDED.next_run_at, errors = b.errors + EXCLUDED.errors,
      last_error = coalesce(EXCLUDED.last_error, b.last_error), failed_at = coalesce(EXCLUDED.failed_at, b.failed_at)`,
}

const TASKS: Statement = {
  name: 'background-runs-read',
  text: `
    SELECT task AS name, instance_id AS leader, instance_id IN (SELECT live_instances()) AS "leaderIsAlive",
           last_run_at AS "lastRunAt", next_run_at AS "nextRunAt", errors::integer, last_error AS "lastError",
           failed_at AS "failedAt"
      FROM background_runs ORDER BY task`,
}

/** The events of a consumer are counted up to this, along the primary key. */
export const MOST_WAITING = 1000

const BACKLOG: Statement = {
  name: 'event-backlog',
  text: `
    SELECT c.name, w.waiting, w.age AS "oldestSeconds" FROM event_consumers c
     CROSS JOIN LATERAL (
       SELECT count(*)::integer AS waiting,
              greatest(0, coalesce(extract(epoch FROM now() - min(occurred_at)), 0))::integer AS age
         FROM (SELECT occurred_at FROM event_deliveries d WHERE d.consumer = c.name ORDER BY sequence LIMIT ${MOST_WAITING}) d) w
     ORDER BY c.name`,
}

type Queries = Pick<Database, 'query'>

export async function recordRuns(db: Queries, instanceId: number, runs: readonly TaskRuns[]): Promise<void> {
  await db.query(RECORD, [
    instanceId,
    runs.map(({ task }) => task),
    runs.map(({ lastRunAt }) => lastRunAt.toISOString()),
    runs.map(({ nextRunAt }) => nextRunAt.toISOString()),
    runs.map(({ errors }) => errors),
    runs.map(({ lastError }) => lastError ?? null),
  ])
}

export async function readWorkers(db: Queries): Promise<WorkersStatus> {
  const tasks = await db.query<TaskStatus>(TASKS, [])
  return { tasks, consumers: await db.query<ConsumerBacklog>(BACKLOG, []) }
}
