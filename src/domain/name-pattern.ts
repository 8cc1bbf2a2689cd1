/** Patterns over DNS names, as the identifier policy and the allowlists of accounts write them. */

/** Whether a name is the pattern, or lies at or below the base of a `*.` pattern. */
export function matchesPattern(name: string, pattern: string): boolean {
  const wanted = pattern.toLowerCase().replace(/\.$/, '')
  if (!wanted.startsWith('*.')) return name === wanted
  const base = wanted.slice(2)
  return name === base || name.endsWith(`.${base}`)
}
