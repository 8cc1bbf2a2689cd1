/**
 * The exceptions of a rule, by file, in `test/house/<rule>.txt`: a path and how often it breaks the rule.
 *
 * A list only shrinks. `CHANCERY_WRITE_EXPECTED=1 npm test -- house` writes what is left, also after a file was moved,
 * unless the rule is broken more often than before.
 */

import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from '../support/sources.ts'

/** A breach of a rule in a file, as a developer reads it. */
export interface Breach {
  file: string
  says: string
}

/** Fails where a file breaks `rule` more often than its list says, and where the list says more than there is. */
export function assertOnlyListed(rule: string, breaches: readonly Breach[]): void {
  const place = path.join(ROOT, 'test/house', `${rule}.txt`)
  const found = new Map<string, number>()
  for (const { file } of breaches) found.set(file, (found.get(file) ?? 0) + 1)
  if (process.env['CHANCERY_WRITE_EXPECTED']) shrink(place, found)

  const listed = readList(place)
  const more = breaches.filter(({ file }) => (found.get(file) ?? 0) > (listed.get(file) ?? 0))
  assert.equal(more.map(({ says }) => says).join('\n'), '', `new exceptions from ${rule}`)
  const fewer = [...listed].filter(([file, count]) => count > (found.get(file) ?? 0)).map(([file]) => file)
  assert.deepEqual(fewer, [], 'these are mended: CHANCERY_WRITE_EXPECTED=1 npm test -- house shortens the list')
}

function shrink(place: string, found: ReadonlyMap<string, number>): void {
  const sum = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((total, count) => total + count, 0)
  if (existsSync(place) && sum(found) > sum(readList(place))) return
  const lines = [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([file, count]) => `${file} ${count}\n`)
  writeFileSync(place, lines.join(''))
}

/** Marks of a conflict between two branches are no entries, so that writing the list solves it. */
function readList(place: string): Map<string, number> {
  if (!existsSync(place)) return new Map()
  const entries = readFileSync(place, 'utf8').matchAll(/^(\S+) (\d+)$/gm)
  return new Map([...entries].map(([, file = '', count]) => [file, Number(count)]))
}
