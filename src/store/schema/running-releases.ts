/**
 * Which releases run on a database. Beside its presence lock (instance-presence.ts), an instance holds one that names its
 * release by the newest migration it knows.
 */

import type pg from '../pg.ts'
import { FIRST_RELEASE } from './schema-state.ts'

/** First half of the presence lock's key; the instance id is the second. `live_instances()` in SQL uses it too. */
export const PRESENCE_CLASS = 712100

/** The same of the release's lock; the second half is the version of the migration. Instances share it. */
export const RELEASE_CLASS = 712101

export interface RunningInstance {
  id: number
  /** The newest migration that it knows. The first release does not say. */
  release: number
}

const RUNNING = `
  WITH locks AS (
    SELECT pid, classid, objid::bigint::integer AS value FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 2 AND granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  )
  SELECT i.value AS id, coalesce(r.value, $1) AS release
    FROM locks i LEFT JOIN locks r ON r.pid = i.pid AND r.classid = $2
   WHERE i.classid = $3 ORDER BY id`

export async function runningInstances(client: pg.Client): Promise<RunningInstance[]> {
  return (await client.query<RunningInstance>(RUNNING, [FIRST_RELEASE, RELEASE_CLASS, PRESENCE_CLASS])).rows
}
