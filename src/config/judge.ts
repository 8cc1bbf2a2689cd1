/** The stages after the schema: rules between keys, and warnings. */

import { formatPath, splitPath, type Violation } from '../shared/config-file/notice.ts'
import { ACME_PROXY, CA } from './rules/ca-rules.ts'
import { CHALLENGES } from './rules/challenge-rules.ts'
import { CRL, HOOKS, OPERATIONS, ROOTS } from './rules/operations-rules.ts'
import type { IsSet, Rule } from './rules/rule.ts'
import { ACME, SERVER, URLS } from './rules/server-rules.ts'
import type { Config } from './schema.ts'
import { WARNINGS } from './warnings.ts'

/** Errors come in this order when no file gives one. */
export const RULES: readonly Rule[] = [
  ...SERVER,
  ...ACME,
  ...CHALLENGES,
  ...CA,
  ...ACME_PROXY,
  ...CRL,
  ...ROOTS,
  ...OPERATIONS,
  ...HOOKS,
  ...URLS,
]

/** The purpose for which a file is read. */
export interface Reading {
  /** `--dev` */
  development?: boolean
  /**
   * Only these sections are judged. Rules about others are skipped, and their required keys may be
   * missing.
   */
  sections?: readonly string[]
}

interface Verdict {
  errors: Violation[]
  warnings: Violation[]
}

/**
 * @param config finished values; keys in `violations` have their defaults
 * @param violations of the schema; rules that read one of these keys are skipped
 */
export function judge(config: Config, isSet: IsSet, violations: readonly Violation[], reading: Reading): Verdict {
  const broken = violations.map(({ path }) => formatPath(path))
  const isSound = (key: string) => !broken.some((other) => isWithin(key, other) || isWithin(other, key))
  return {
    errors: [...violations, ...judgeRules(config, isSet, isSound, reading)],
    warnings: WARNINGS.filter(({ path }) => matters(path, reading.sections)).flatMap((rule) =>
      [rule.check(config, isSet) ?? []].flat().map((message) => ({ path: splitPath(rule.path), message })),
    ),
  }
}

function judgeRules(
  config: Config,
  isSet: IsSet,
  isSound: (key: string) => boolean,
  { development = false, sections }: Reading,
): Violation[] {
  const rules = RULES.filter((rule) => !(development && rule.inDevelopment) && matters(rule.path, sections))
  return rules
    .filter((rule) => [rule.path, ...(rule.reads ?? [])].every(isSound))
    .flatMap((rule) => {
      const found = rule.check(config, isSet)
      if (found === undefined) return []
      const { path, message } = typeof found === 'string' ? { path: rule.path, message: found } : found
      return [{ path: splitPath(path), message }]
    })
}

const matters = (key: string, sections?: readonly string[]) => sections?.includes(key.split('.')[0] ?? '') ?? true

const isWithin = (inner: string, outer: string) =>
  inner === outer || inner.startsWith(`${outer}.`) || inner.startsWith(`${outer}[`)
