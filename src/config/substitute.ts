/**
 * `${VAR}` and `${VAR:-default}` in the parsed file, before validation.
 *
 * Only a text that is one whole reference is replaced, always by a text. Numbers and switches
 * therefore cannot come from a variable. An empty variable counts as set. Replaced texts are not
 * substituted again.
 */

import { formatPath, type Path } from '../shared/config-file/notice.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface Substitution {
  value: unknown
  /** Places whose variable is unset and has no default. */
  unset: { path: Path; variable: string }[]
  /** Places with a reference inside a longer text, which is not replaced. */
  partial: Path[]
  /**
   * Variable behind a value, by formatted path. Messages name the variable instead of its value.
   */
  variables: Map<string, string>
}

const REFERENCE = /^\$\{(?<name>[^:}]+)(?::-(?<fallback>.*))?\}$/s

export function substituteVariables(root: unknown, environment: Environment): Substitution {
  const result: Substitution = { value: undefined, unset: [], partial: [], variables: new Map() }

  const replace = (text: string, path: Path): string => {
    const reference = REFERENCE.exec(text)?.groups
    if (reference === undefined) {
      if (text.includes('${')) result.partial.push(path)
      return text
    }
    const name = reference['name'] ?? ''
    const value = environment[name] ?? reference['fallback']
    result.variables.set(formatPath(path), name)
    if (value === undefined) result.unset.push({ path, variable: name })
    return value ?? text
  }

  const visit = (value: unknown, path: Path): unknown => {
    if (typeof value === 'string') return replace(value, path)
    if (Array.isArray(value)) return value.map((entry, index) => visit(entry, [...path, index]))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, visit(entry, [...path, key])]))
  }

  result.value = visit(root, [])
  return result
}
