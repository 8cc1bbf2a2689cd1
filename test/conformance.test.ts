/** `docs/conformance.md` cites tests; each of them must exist. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** `file` "part of a test's name", "part of another's". */
const CITATION = /`([a-z0-9-]+)` ("[^"]+"(?:, "[^"]+")*)/g
const rows = readFileSync(path.join(ROOT, 'docs/conformance.md'), 'utf8')
  .split('\n')
  .filter((line) => /^\| (?!§)/.test(line))

function citationsOf(row: string): { file: string; name: string }[] {
  return [...row.matchAll(CITATION)].flatMap(([, file, names]) =>
    [...(names ?? '').matchAll(/"([^"]+)"/g)].map(([, name]) => ({ file: file ?? '', name: name ?? '' })),
  )
}

function sourcesByName(): Map<string, string> {
  const folder = path.join(ROOT, 'test')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.test.ts'))
  const sources = new Map<string, string>()
  for (const file of files) {
    const name = path.basename(file, '.test.ts')
    sources.set(name, (sources.get(name) ?? '') + readFileSync(path.join(folder, file), 'utf8'))
  }
  return sources
}

test('every test that the conformance table cites exists', () => {
  const sources = sourcesByName()
  const citations = rows.flatMap(citationsOf)
  assert.ok(citations.length > 150)
  assert.deepEqual(
    citations.filter(({ file, name }) => !sources.get(file)?.includes(name)),
    [],
  )
})

test('every requirement that is met is shown by a test', () => {
  const isMarked = (row: string) => /\*\*(Chosen|Diverging)\*\*/.test(row)
  assert.deepEqual(
    rows.filter((row) => !isMarked(row) && citationsOf(row).length === 0),
    [],
  )
})
