/** `docs/conformance.md` cites tests; each of them must exist. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** `file` "part of a test's name". */
const CITATION = /`([a-z0-9-]+)` "([^"]+)"/g

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
  const citations = [...readFileSync(path.join(ROOT, 'docs/conformance.md'), 'utf8').matchAll(CITATION)]
  assert.ok(citations.length > 50)
  const broken = citations.filter(([, file, name]) => !sources.get(file as string)?.includes(name as string))
  assert.deepEqual(
    broken.map(([citation]) => citation),
    [],
  )
})

test('every requirement that is done is shown by a test', () => {
  const rows = readFileSync(path.join(ROOT, 'docs/conformance.md'), 'utf8').split('\n')
  const unproven = rows.filter((row) => /^\|.*\| done/.test(row) && !row.includes('`'))
  assert.deepEqual(unproven, [])
})
