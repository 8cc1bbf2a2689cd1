/** Patterns over DNS names, as the identifier policy and the allowlists of accounts write them. */

/** Whether a name is the pattern, or lies at or below the base of a `*.` pattern. */
export function matchesPattern(name: string, pattern: string): boolean {
  const wanted = pattern.toLowerCase().replace(/\.$/, '')
  if (!wanted.startsWith('*.')) return name === wanted
  const base = wanted.slice(2)
  return name === base || name.endsWith(`.${base}`)
}

/** Whether `*.base` is out of bounds where the pattern is: its base is meant, or a name that it would speak for. */
export function forbidsWildcard(base: string, pattern: string): boolean {
  const top = pattern.toLowerCase().replace(/^\*\.|\.$/g, '')
  return matchesPattern(base, pattern) || top.slice(top.indexOf('.') + 1) === base
}

/** Whether all that `*.base` would speak for lies below the base of a `*.` pattern; an exact name allows no wildcard. */
export function allowsWildcard(base: string, pattern: string): boolean {
  return pattern.startsWith('*.') && matchesPattern(base, pattern)
}
