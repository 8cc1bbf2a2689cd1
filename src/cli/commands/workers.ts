/** `chancery workers status`: what `background_runs` and the backlog of consumers say. */

import type { Config } from '../../config/schema.ts'
import { isBehind, type TaskStatus } from '../../domain/background-run.ts'
import { readWorkers } from '../../store/background-run-store.ts'
import { withDatabase } from './operator-database.ts'

export async function showWorkers(config: Config, json: boolean): Promise<number> {
  const status = await withDatabase(config, readWorkers)
  if (json) {
    console.log(JSON.stringify(status, null, 2))
    return 0
  }
  for (const task of status.tasks) console.log(lineOf(task))
  if (status.tasks.length === 0) console.log('no background task has run yet')
  for (const consumer of status.consumers) {
    const { name, waiting, oldestSeconds } = consumer
    const age = waiting > 0 ? `, the oldest for ${oldestSeconds} s` : ''
    console.log(`consumer ${name}: ${waiting} waiting${age}${isBehind(consumer) ? '  BEHIND' : ''}`)
  }
  return 0
}

function lineOf({
  name,
  leader,
  leaderIsAlive,
  lastRunAt,
  nextRunAt,
  errors,
  lastError,
  failedAt,
}: TaskStatus): string {
  const where = `instance ${leader}${leaderIsAlive ? '' : ' (gone)'}`
  const times = `last ${lastRunAt.toISOString()}  next ${nextRunAt.toISOString()}`
  const trouble = errors === 0 ? '' : `  errors ${errors}, at ${failedAt?.toISOString()}: ${lastError}`
  return `${name.padEnd(28)} ${where}  ${times}${trouble}`
}
