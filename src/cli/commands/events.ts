/** `chancery events dead` and `retry`. */

import type { Config } from '../../config/schema.ts'
import { DeadLetters } from '../../services/admin/dead-letters.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { withAdministration } from './administration.ts'

const MOST_SHOWN = 100

export function showDeadLetters(config: Config, json: boolean): Promise<number> {
  return withAdministration(config, async ({ db, audit }) => {
    const letters = await new DeadLetters(db, audit).list(MOST_SHOWN, 0)
    for (const letter of letters) {
      const { id, consumer, kind, failed_at, attempts, error } = letter
      console.log(
        json
          ? JSON.stringify(letter)
          : `${id}  ${failed_at.toISOString()}  ${consumer}  ${kind}  ${attempts} attempts: ${JSON.stringify(error)}`,
      )
    }
    if (letters.length === 0 && !json) console.log('no delivery has failed for good')
    return 0
  })
}

export function retryDeadLetter(config: Config, id: string): Promise<number> {
  if (!isUuid(id)) throw new UsageError('<id> takes the id that events dead shows')
  return withAdministration(config, async ({ db, audit, actor }) => {
    await new DeadLetters(db, audit).retry(actor, id)
    console.log(`${id} is delivered again`)
    return 0
  })
}
