/** A body as JSON; what it holds is the reader's to check. */

import { CannotTell, messageOf } from '../verdict.ts'

/** @throws CannotTell */
export function jsonOf<T extends object>(body: Buffer): Partial<T> {
  try {
    return JSON.parse(body.toString('utf8')) as Partial<T>
  } catch (error) {
    throw new CannotTell(`the answer is no JSON: ${messageOf(error)}`)
  }
}
