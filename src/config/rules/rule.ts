/** The form of a rule between several keys, and how the common ones are written. */

import { valueAt } from '../../shared/config-file/messages.ts'
import { splitPath } from '../../shared/config-file/notice.ts'
import type { Config } from '../schema.ts'

/** Whether the file sets the key; null and an empty text do not count. */
export type IsSet = (path: string) => boolean

export interface Rule {
  /** The key that the message names. */
  path: string
  /** Further keys that the rule reads. A rule is skipped while one of its keys has an error. */
  reads?: readonly string[]
  /** Whether the rule is suspended with --dev. */
  inDevelopment?: true
  /** @returns a sentence with the error and its remedy; undefined without an error */
  check(config: Config, isSet: IsSet): string | Misplaced | undefined
}

/** An error at a key below the rule's own, such as in an entry of a list. */
export interface Misplaced {
  path: string
  message: string
}

const valueIn = (c: Config, path: string): unknown => valueAt(c, splitPath(path))

export const required = (path: string, needed: (c: Config) => boolean, why: string, reads: string[]): Rule => ({
  path,
  reads,
  check: (c) => (needed(c) && [null, ''].includes(valueIn(c, path) as null) ? `is missing; ${why}` : undefined),
})

export const not = (
  path: string,
  reads: readonly string[],
  wrong: (c: Config) => boolean,
  message: string | ((c: Config) => string),
  accepted: Pick<Rule, 'inDevelopment'> = {},
): Rule => ({
  path,
  ...accepted,
  reads,
  check: (c) => (wrong(c) ? (typeof message === 'string' ? message : message(c)) : undefined),
})

/** A number that must not be above another key's. */
export const atMost = (path: string, bound: string): Rule =>
  not(
    path,
    [bound],
    (c) => Number(valueIn(c, path)) > Number(valueIn(c, bound)),
    (c) => `is ${valueIn(c, path)}; must be at most ${bound}, which is ${valueIn(c, bound)}`,
  )
