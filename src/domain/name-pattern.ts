/** Patterns over DNS names, for the identifier policy and the allowlists of accounts. */

/** Whether the name equals the pattern, or is at or below the base of a `*.` pattern. */
export function matchesPattern(name: string, pattern: string): boolean {
  const wanted = pattern.toLowerCase().replace(/\.$/, '')
  if (!wanted.startsWith('*.')) return name === wanted
  const base = wanted.slice(2)
  return name === base || name.endsWith(`.${base}`)
}

/** Whether a pattern forbids `*.base`: it matches the base, or a name that the wildcard covers. */
export function forbidsWildcard(base: string, pattern: string): boolean {
  const top = pattern.toLowerCase().replace(/^\*\.|\.$/g, '')
  return matchesPattern(base, pattern) || top.slice(top.indexOf('.') + 1) === base
}

/** Whether a `*.` pattern covers all that `*.base` covers. An exact name allows no wildcard. */
export function allowsWildcard(base: string, pattern: string): boolean {
  return pattern.startsWith('*.') && matchesPattern(base, pattern)
}
