/** Schemas for lists and objects from strangers that read no more than they accept. */

import { z } from 'zod/v4'
import type { JsonObject } from './encoding.ts'

/** A refusal shows three faults. To collect all of 15,000 elements took 100 ms. */
const MOST_FAULTS = 3

/** Unlike `z.array(element).max(most)`, which reads every element before it counts them. */
export function boundedList<E extends z.ZodType>(element: E, most: number) {
  const length = `must be a list of at most ${most} elements`
  return z
    .unknown()
    .transform((value, check): z.output<E>[] => {
      if (!Array.isArray(value) || value.length > most) {
        check.addIssue(length)
        return z.NEVER
      }
      const items: z.output<E>[] = []
      for (const [at, item] of value.entries()) {
        const { success, data, error } = element.safeParse(item)
        if (success) items.push(data)
        else
          for (const { path, message } of error.issues) check.addIssue({ code: 'custom', path: [at, ...path], message })
        if (check.issues.length >= MOST_FAULTS) return z.NEVER
      }
      return items
    })
    .meta({ type: 'array', maxItems: most })
}

/** An object of any members, which are not read. `z.record` reads and copies all of them. */
export const anyObject = () =>
  z.custom<JsonObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value))
