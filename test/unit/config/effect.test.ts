/** Every key has an effect, or the list of those that have none knows it (`src/config/schema.ts`). */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { ABSENT_KEY, isInert, LEAVES, WITHOUT_EFFECT } from '../../../src/config/schema.ts'
import { formatPath, type Path } from '../../../src/shared/config-file/notice.ts'
import { words } from '../../support/words.ts'

const ROOT = path.resolve(import.meta.dirname, '../../../..')

/** Nobody below these folders sees the configuration. The three files settle what one key says for another. */
const FOLDERS = words`src/main src/settings src/validation src/mpic src/front src/admin src/events src/cli src/dev`
const READERS = ['src/config/backends.ts', 'src/config/challenge-facts.ts', 'src/config/load.ts']

/** Keys whose section is a name which is computed: a rate limit, a challenge method. */
const COMPUTED = /^security\.rate_limits\.\w+\.(?:requests|window_seconds)$|^challenges\.dns\w+\.resolvers$/

/** Comments and texts name keys without reading them. */
const code = (file: string) =>
  readFileSync(path.join(ROOT, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    .replace(/'(?:[^'\\\n]|\\.)*'/g, "''")

const SOURCES = [
  ...FOLDERS.flatMap((folder) =>
    (readdirSync(path.join(ROOT, folder), { recursive: true }) as string[])
      .filter((file) => file.endsWith('.ts'))
      .map((file) => `${folder}/${file}`),
  ),
  ...READERS,
].map(code)

/** A name with an underscore is one of ours; another one has to stand beside its section. */
function isRead(key: Path): boolean {
  const [section, leaf] = key.slice(-2) as string[]
  const patterns = leaf!.includes('_')
    ? [new RegExp(`\\b${section}\\b[\\s\\S]*\\b${leaf}\\b|\\b${leaf}\\b[\\s\\S]*\\b${section}\\b`)]
    : [
        new RegExp(`\\b${section}\\??\\.${leaf}\\b`),
        new RegExp(`\\b${section}: \\{[^{}]*\\b${leaf}\\b`),
        new RegExp(`\\{[^{}]*\\b${leaf}\\b[^{}]*\\} = [\\w.()]*\\b${section}\\b`),
      ]
  return SOURCES.some((text) => patterns.some((pattern) => pattern.test(text)))
}

test('a key that no code reads is in the list of keys without effect', () => {
  const unread = LEAVES.map(({ path: key }) => key).filter((key) => !isRead(key) && !isInert(key))
  const withoutEffect = unread.map(formatPath).filter((key) => !COMPUTED.test(key))
  assert.deepEqual(withoutEffect, [])
})

test('what the list has is in the schema, and is not read', () => {
  const known = new Set(LEAVES.map(({ path: key }) => formatPath(key)))
  for (const key of [ABSENT_KEY, ...WITHOUT_EFFECT]) assert.ok(known.has(key) && !isRead(key.split('.')), key)
})
