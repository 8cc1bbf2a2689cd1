/**
 * The work on the parsed file around the schema: it replaces variables, arranges sections, removes faulty keys, and finds
 * secrets that others may read.
 */

import { isSection, type Section, withSections } from '../shared/config-file/document.ts'
import { formatPath, type Path, type Violation } from '../shared/config-file/notice.ts'
import { findNode, isSecret, typeOf } from '../shared/config-file/schema-node.ts'
import { withoutLineEnds } from '../shared/lib/secret-box.ts'
import { ConfigSchema, REFERENCE } from './schema.ts'

/**
 * `${VAR}` and `${VAR:-default}` in the parsed file, before validation.
 *
 * Only a text that is one whole reference is replaced: by a number or a switch where the key wants one, else by a text.
 * An empty variable counts as set, but leaves out a number or a switch. Replaced texts are not substituted again.
 */
export type Environment = Readonly<Record<string, string | undefined>>

export interface Substitution {
  value: unknown
  /** Places whose variable is unset and has no default. */
  unset: { path: Path; variable: string }[]
  /** Places with a reference inside a longer text, which is not replaced. */
  partial: Path[]
  /** Variable behind a value, by formatted path. Messages name the variable instead of its value. */
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
    return Object.fromEntries(
      Object.entries(value).map(([key, entry]) => [key, key === '_comment' ? entry : visit(entry, [...path, key])]),
    )
  }

  result.value = visit(root, [])
  return result
}

const IS_NUMBER = /^-?\d+(?:\.\d+)?$/
const SWITCHES: Readonly<Record<string, boolean>> = { true: true, false: false }

/** A text that is no number, or no switch, stays for the schema to refuse. */
function converted(value: string, path: Path): unknown {
  const type = typeOf(findNode(REFERENCE, path))
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

/** Values for required keys that are wrong or missing, so that the other keys can be checked. */
const STAND_INS: readonly [Path, string][] = [
  [['server', 'external_url'], 'https://acme.invalid'],
  [['database', 'database'], 'stand-in'],
  [['database', 'user'], 'stand-in'],
]

/** A copy with its sections in place, and with the settings of an extension gathered in one key. */
export function arrange(root: Section): Section {
  const filled = withSections(root, REFERENCE)
  if (isSection(filled['ca'])) filled['ca'] = gatherExtensionSettings(filled['ca'])
  return filled
}

/** The reference implementation allows any keys under `ca` for plug-ins; here only an `ext:` backend gets them. */
function gatherExtensionSettings(ca: Section): Section {
  const { _comment, ...rest } = ca
  if (typeof rest['backend'] !== 'string' || !rest['backend'].startsWith('ext:')) return rest
  const known = REFERENCE.properties?.['ca']?.properties ?? {}
  const extra = Object.entries(rest).filter(([key]) => !Object.hasOwn(known, key))
  const own = Object.entries(rest).filter(([key]) => Object.hasOwn(known, key))
  if (extra.length === 0) return rest
  const settings = isSection(rest['extension_settings']) ? rest['extension_settings'] : {}
  return { ...Object.fromEntries(own), extension_settings: { ...Object.fromEntries(extra), ...settings } }
}

/** Bound of the rounds below: each removes at least one key or goes one level up. */
const MAX_ROUNDS = 20

/** A copy that the schema accepts: faulty keys are removed, and stand-ins added. A faulty entry removes its list. */
export function withoutFaults(raw: Section): Section {
  let value = raw
  for (let round = 0; round < MAX_ROUNDS; round++) {
    value = withStandIns(value)
    const issues = ConfigSchema.safeParse(value).error?.issues ?? []
    if (issues.length === 0) return value
    for (const issue of issues) {
      const at = issue.path as (string | number)[]
      const places = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...at, key]) : [at]
      for (const place of places) value = without(value, place)
    }
  }
  return withStandIns({})
}

export const withStandIns = (root: Section): Section =>
  STAND_INS.reduce((value, [path, standIn]) => withDefault(value, path, standIn), root)

/** Removes the key, the list around an entry, or the section around an absent key. */
function without(root: Section, path: Path): Section {
  const [head, ...rest] = path
  if (typeof head !== 'string' || !Object.hasOwn(root, head)) return root
  const child = root[head]
  const inside = rest[0]
  if (isSection(child) && typeof inside === 'string' && Object.hasOwn(child, inside)) {
    return { ...root, [head]: without(child, rest) }
  }
  const { [head]: _, ...others } = root
  return others
}

function withDefault(root: Section, path: Path, value: unknown): Section {
  const [head, ...rest] = path
  if (typeof head !== 'string') return root
  if (rest.length === 0) return { ...root, [head]: root[head] ?? value }
  const child = root[head]
  return { ...root, [head]: withDefault(isSection(child) ? child : {}, rest, value) }
}

const READABLE_BY_OTHERS = 0o004
const PERMISSIONS = 0o777

/**
 * @param root values of the file, its variables replaced
 * @param variables variable behind a value, by formatted path; such a value is not in the file
 *   itself
 */
export function openSecrets(root: unknown, variables: ReadonlyMap<string, string>, mode: number): Violation[] {
  if ((mode & READABLE_BY_OTHERS) === 0) return []
  const permissions = (mode & PERMISSIONS).toString(8)
  const message = (isSure: boolean) =>
    `${isSure ? 'is' : 'looks like'} a secret, and others may read this file (mode ${permissions}); use 600 or 640, or a variable as its value`
  return secretsIn(root, [], variables).map(({ path, isSure }) => ({ path, message: message(isSure) }))
}

interface Found {
  path: Path
  /** False where only its name or its text says so. */
  isSure: boolean
}

/** A key marked as secret counts once, even when it holds a list. In the settings of a module each text is judged. */
function secretsIn(value: unknown, path: Path, variables: ReadonlyMap<string, string>): Found[] {
  if (isSecret(REFERENCE, path)) {
    if (isSection(value)) return likelySecrets(value, path, variables).map((path) => ({ path, isSure: false }))
    return holdsText(value, path, variables) ? [{ path, isSure: true }] : []
  }
  return childrenOf(value, path).flatMap(([child, at]) => secretsIn(child, at, variables))
}

/** Keys that say so; `key` alone, or at the end, but no path of a file with one. */
const SECRET_NAME = /secret|password|passphrase|token|credential|authori[sz]ation|(?:^|[_-])(?:pin|key)$|apikey$/i
/** A URL with a login, a query or a long part, or any other text that looks drawn at random. */
const SECRET_TEXT =
  /^[a-z][a-z0-9+.-]*:\/\/[^/]*@|^https?:.*\?|(?<![^/:=])(?=[\w+=-]*\d)(?=[\w+=-]*[a-z])[\w+=-]{20,}$/i

/** The settings of a module are free, and most are no secrets. */
function likelySecrets(value: unknown, path: Path, variables: ReadonlyMap<string, string>): Path[] {
  if (typeof value === 'string') {
    const isLikely = SECRET_NAME.test(nameOf(path)) || SECRET_TEXT.test(value)
    return isLikely && holdsText(value, path, variables) ? [path] : []
  }
  return childrenOf(value, path).flatMap(([child, at]) => likelySecrets(child, at, variables))
}

/** Entries of a list have the name of the list. */
const nameOf = (path: Path) => String(path.findLast((part) => typeof part === 'string') ?? '')

function holdsText(value: unknown, path: Path, variables: ReadonlyMap<string, string>): boolean {
  if (typeof value === 'string') return value !== '' && !variables.has(formatPath(path))
  return childrenOf(value, path).some(([child, at]) => holdsText(child, at, variables))
}

function childrenOf(value: unknown, path: Path): [unknown, Path][] {
  if (Array.isArray(value)) return value.map((entry, index) => [entry, [...path, index]])
  return isSection(value) ? Object.entries(value).map(([key, entry]) => [entry, [...path, key]]) : []
}
