/** SQL of failed logins of strangers, by the minute (table admin_failed_logins). */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf } from '../../store/slonik.ts'

const Count = z.object({ failures: z.int() })
const Minute = Count.extend({ minute: z.date() })

/** @returns how many there are in this minute, this one included */
export async function countStranger(tx: CommonQueryMethods): Promise<number> {
  const { failures } = await tx.one(rowsOf(Count)`
    INSERT INTO admin_failed_logins AS f (minute, failures) VALUES (date_trunc('minute', now()), 1)
    ON CONFLICT (minute) DO UPDATE SET failures = f.failures + 1 RETURNING failures`)
  return failures
}

/** Removes the minutes that are over. */
export function takeStrangers(tx: CommonQueryMethods): Promise<readonly z.infer<typeof Minute>[]> {
  return tx.any(rowsOf(Minute)`
    DELETE FROM admin_failed_logins WHERE minute < date_trunc('minute', now()) - interval '1 minute'
    RETURNING minute, failures`)
}
