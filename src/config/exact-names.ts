/** Patterns of `security.identifier_policy` that forbid less than they seem to. */

import { matchesPattern } from '../domain/allowlist.ts'
import type { Config } from './schema.ts'

/** @returns a sentence about forbidden names of which `www.` passes */
export function narrowlyForbidden({ security }: Config): string | undefined {
  const { forbidden_domains: forbidden, allowed_domains: allowed } = security.identifier_policy
  const isMatched = (name: string, patterns: readonly string[]) => patterns.some((one) => matchesPattern(name, one))
  const [first, ...others] = forbidden
    .filter((pattern) => !pattern.startsWith('*.'))
    .map((name) => name.toLowerCase().replace(/\.$/, ''))
    .filter((name) => !isMatched(`www.${name}`, forbidden))
    .filter((name) => allowed.length === 0 || isMatched(`www.${name}`, allowed))
  if (first === undefined) return undefined
  const more = others.length > 0 ? `, as for ${others.length} more` : ''
  return `forbids only ${first} itself; write *.${first} for all below it${more}`
}
