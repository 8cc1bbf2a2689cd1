/**
 * `${VAR}` and `${VAR:-default}` in the parsed file, before validation.
 *
 * Only a text that is one whole reference is replaced: by a number or a switch where the key wants
 * one, else by a text. An empty variable counts as set, but leaves out a number or a switch.
 * Replaced texts are not substituted again.
 */

import { formatPath, type Path } from '../shared/config-file/notice.ts'
import { findNode, isSecret } from '../shared/config-file/schema-node.ts'
import { withoutLineEnds } from '../shared/lib/secret-text.ts'
import { REFERENCE } from './reference.ts'

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

const WHOLE = /^\$\{(?<name>[^:}]+)(?::-(?<fallback>.*))?\}$/s

export function substituteVariables(root: unknown, environment: Environment): Substitution {
  const result: Substitution = { value: undefined, unset: [], partial: [], variables: new Map() }

  const replace = (text: string, path: Path): unknown => {
    const reference = WHOLE.exec(text)?.groups
    if (reference === undefined) {
      if (text.includes('${')) result.partial.push(path)
      return text
    }
    const name = reference['name'] ?? ''
    const given = environment[name]
    // `$(cat file)` in a script, and a file that a container mounts, end with a line end.
    const value = given === undefined ? reference['fallback'] : withoutLineEnds(given)
    result.variables.set(formatPath(path), name)
    if (value === undefined) result.unset.push({ path, variable: name })
    return value === undefined ? text : converted(value, path)
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

const IS_NUMBER = /^-?\d+(?:\.\d+)?$/
const SWITCHES: Readonly<Record<string, boolean>> = { true: true, false: false }

/** A text that is no number, or no switch, stays for the schema to refuse. */
function converted(value: string, path: Path): unknown {
  const type = findNode(REFERENCE, path)?.type ?? ''
  if (!['integer', 'number', 'boolean'].includes(type)) return value
  if (value === '') return undefined
  if (type === 'boolean') return SWITCHES[value.toLowerCase()] ?? value
  return IS_NUMBER.test(value) ? Number(value) : value
}

/** Whether `${` may be meant: in a secret that is no URL, and in the settings of modules. */
export function mayHoldReference(path: Path): boolean {
  const node = findNode(REFERENCE, path)
  return node === undefined || (isSecret(REFERENCE, path) && node.expects === undefined)
}
