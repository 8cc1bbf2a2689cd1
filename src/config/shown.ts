/** The configuration as administrators may read it: every key with its value, secrets hidden. Pure. */

import { valueAt } from '../shared/config-file/messages.ts'
import { formatPath, type Path, splitPath } from '../shared/config-file/notice.ts'
import { isSecret, type ReloadClass, withoutNull } from '../shared/config-file/schema-node.ts'
import type { Config } from './schema.ts'
import { isInert, LEAVES, REFERENCE } from './schema.ts'

/** The variable behind a key of the file, by formatted path; undefined for a value of its own. */
export type Sources = ReadonlyMap<string, string | undefined>

export interface ShownSetting {
  key: string
  /** A value of JSON. `HIDDEN` replaces a secret that is set. */
  value: unknown
  default: unknown
  /** Undefined where no file is known. */
  source: 'file' | 'variable' | 'default' | undefined
  variable: string | undefined
  reload: ReloadClass
  secret: boolean
  description: string
  unit: string | undefined
}

export const HIDDEN = '(hidden)'

/** @param sources of the file as it is now; undefined when there is none */
export function shownSettings(config: Config, sources: Sources | undefined): ShownSetting[] {
  return LEAVES.filter(({ path }) => !isInert(path)).map(({ path, node }) => {
    const key = formatPath(path)
    const { description = '', unit, reload = 'restart', default: fallback } = withoutNull(node)
    return {
      key,
      value: withoutSecrets(valueAt(config, path), path),
      default: fallback ?? null,
      ...sourceOf(key, sources),
      reload,
      secret: isSecret(REFERENCE, path),
      description,
      unit,
    }
  })
}

let described: readonly { key: string; description: string }[] | undefined

/** All keys with what they mean, without values. */
export function describedSettings() {
  described ??= LEAVES.filter(({ path }) => !isInert(path)).map(({ path, node }) => ({
    key: formatPath(path),
    description: withoutNull(node).description ?? '',
  }))
  return described
}

/** A list is one key, and a variable may stand behind one of its entries. */
function sourceOf(key: string, sources: Sources | undefined): Pick<ShownSetting, 'source' | 'variable'> {
  if (!sources) return { source: undefined, variable: undefined }
  if (!sources.has(key)) return { source: 'default', variable: undefined }
  const variable = sources.get(key)
  return { source: variable === undefined ? 'file' : 'variable', variable }
}

/** The sources of all keys that the file sets. */
export function sourcesOf(isSet: (key: string) => boolean, variables: ReadonlyMap<string, string>): Sources {
  const set = LEAVES.map(({ path }) => formatPath(path)).filter(isSet)
  return new Map(set.map((key) => [key, variables.get(key)]))
}

/** The value of a key in another configuration, such as the file as it is now. */
export const shownValue = (config: Config, key: string): unknown => {
  const path = splitPath(key)
  return withoutSecrets(valueAt(config, path), path)
}

function withoutSecrets(value: unknown, path: Path): unknown {
  if (value === undefined || value === null || value === '') return null
  if (isSecret(REFERENCE, path)) return HIDDEN
  if (Array.isArray(value)) return value.map((entry, index) => withoutSecrets(entry, [...path, index]))
  if (typeof value === 'string') return withoutLogin(value)
  if (typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, withoutSecrets(entry, [...path, key])]))
}

/** A URL may hold a username and a password, or a token in its query. */
const withoutLogin = (text: string) =>
  text.replaceAll(/\/\/[^/@\s]*@/g, '//…@').replace(/^(https?:\/\/[^?]*)\?.*$/s, '$1?…')
