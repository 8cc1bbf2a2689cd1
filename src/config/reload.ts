/** The keys that SIGHUP may change: the schema marks them `live`. */

import { isDeepStrictEqual } from 'node:util'
import { valueAt } from '../shared/config-file/messages.ts'
import { formatPath, type Path } from '../shared/config-file/notice.ts'
import type { Config } from './schema.ts'
import { isInert, LEAVES } from './schema.ts'

interface Reload {
  /** The running configuration with the live keys of the new file. */
  config: Config
  /** Keys that differ and are applied. */
  live: string[]
  /** Keys that differ and wait for a restart. */
  restart: string[]
}

/** Pure: neither argument is changed. Lists and tables of names count as one key; keys without effect are left out. */
export function planReload(running: Config, next: Config): Reload {
  const reload: Reload = { config: structuredClone(running), live: [], restart: [] }
  for (const { path, node } of LEAVES) {
    const value = valueAt(next, path)
    if (isDeepStrictEqual(value, valueAt(running, path)) || isInert(path)) continue
    reload[node.reload ?? 'restart'].push(formatPath(path))
    if (node.reload === 'live') assign(reload.config, path, structuredClone(value))
  }
  return reload
}

function assign(root: Config, path: Path, value: unknown): void {
  const holder = valueAt(root, path.slice(0, -1))
  const key = path.at(-1)
  if (typeof holder === 'object' && holder !== null && key !== undefined) Reflect.set(holder, key, value)
}
