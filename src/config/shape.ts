/** Brings the parsed file into the shape that the schema checks, and removes faulty keys. */

import { isSection, type Section, withSections } from '../shared/config-file/document.ts'
import type { Path } from '../shared/config-file/notice.ts'
import { ConfigSchema, REFERENCE } from './schema.ts'

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

/**
 * The reference implementation allows any keys under `ca` for plug-ins; here only an `ext:` backend
 * gets them.
 */
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

/**
 * A copy that the schema accepts: faulty keys are removed, and stand-ins added. A faulty entry
 * removes its list.
 */
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
