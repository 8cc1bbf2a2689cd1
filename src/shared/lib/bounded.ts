/** Schemas for lists and objects from strangers that read no more than they accept. */

import * as z from 'zod/v4'
import { isJsonObject, type JsonObject } from './encoding.ts'

const ATOM = /^[\p{L}\p{N}!#$%&'*+/=?^_`{|}~-]+$/u
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u
const MOST_OF_LOCAL_PART = 64
const MOST_OF_DOMAIN = 253

export const MAIL_ADDRESS = 'an e-mail address such as admin@example.org'

/** No display name, no angle brackets, no quoted local part; not a check that mail arrives. */
export function isMailAddress(text: string): boolean {
  const [local = '', domain = '', ...more] = text.split('@')
  if (more.length > 0 || local.length > MOST_OF_LOCAL_PART || domain.length > MOST_OF_DOMAIN) return false
  return local.split('.').every((atom) => ATOM.test(atom)) && domain.split('.').every((label) => LABEL.test(label))
}

/** A refusal shows three faults. To collect all of 15,000 elements took 100 ms. */
const MOST_FAULTS = 3

/** The element of a bounded list, for readers of schemas. */
export const ELEMENTS = new WeakMap<object, z.ZodType>()

function listOf<S extends z.ZodType>(list: S, element: z.ZodType): S {
  ELEMENTS.set(list, element)
  return list
}

/** A sentence for the sender of the value. @param issue of a schema that was asked to report its input */
export function sentenceOf(issue: z.core.$ZodIssue): string {
  const missing = issue.input === undefined ? 'is missing; it ' : ''
  if (issue.code === 'invalid_type') return `${missing}must be ${kindOf(issue.expected)}`
  if (issue.code === 'invalid_value') return `${missing}${choiceOf(issue)}`
  if (issue.code === 'too_small') return `must be at least ${issue.minimum}${unitOf(issue.origin)}`
  if (issue.code === 'too_big') return `must be at most ${issue.maximum}${unitOf(issue.origin)}`
  return issue.message
}

const choiceOf = ({ values }: z.core.$ZodIssueInvalidValue) =>
  `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`

const kindOf = (expected: string) => (/^[aeiou]/.test(expected) ? `an ${expected}` : `a ${expected}`)
const unitOf = (origin: string) =>
  origin === 'string' ? ' characters long' : origin === 'array' ? ' entries long' : ''

/** Unlike `z.array(element).max(most)`, which reads every element before it counts them. */
export function boundedList<E extends z.ZodType>(element: E, most: number) {
  const length = `must be a list of at most ${most} elements`
  const list = z
    .unknown()
    .transform((value, check): z.output<E>[] => {
      if (!Array.isArray(value) || value.length > most) {
        check.addIssue(value === undefined ? 'is missing' : length)
        return z.NEVER
      }
      const items: z.output<E>[] = []
      for (const [at, item] of value.entries()) {
        const { success, data, error } = element.safeParse(item, { reportInput: true })
        if (success) items.push(data)
        else
          for (const issue of error.issues)
            check.addIssue({ code: 'custom', path: [at, ...issue.path], message: sentenceOf(issue) })
        if (check.issues.length >= MOST_FAULTS) return z.NEVER
      }
      return items
    })
    .meta({ type: 'array', maxItems: most })
  return listOf(list, element)
}

/** A bounded array for documented schemas: it describes its elements, and reports the faults of up to `most`. */
export function boundedArray<E extends z.ZodType>(element: E, most: number, least = 0) {
  const limit = (value: z.input<E>[], check: z.RefinementCtx) => {
    if (!Array.isArray(value) || value.length <= most) return value
    check.addIssue(`must be at most ${most} entries long`)
    return z.NEVER
  }
  return listOf(z.preprocess(limit, z.array(element).min(least).max(most)), element)
}

/** An object of any members, which are not read. `z.record` reads and copies all of them. */
export const anyObject = () => z.custom<JsonObject>(isJsonObject)
