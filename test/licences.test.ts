/** Every package of the lock file is under a licence that lets the service be used and passed on. */

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** SPDX names. None of them asks for source or says under which licence our own code is. */
const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'MIT-0',
  'Python-2.0',
  'Zlib',
])

/**
 * Used by tests as they are: changed files of the first would have to be published (MPL-2.0 §3.1), and the second, a dependency of a
 * dependency, gives up all rights but says nothing of patents.
 */
const ALLOWED_FOR_TESTS: Record<string, string> = {
  'axe-core@4.14.1': 'MPL-2.0',
  'railroad-diagrams@1.0.0': 'CC0-1.0',
}

/** Packages that name no licence in package.json, with the one of their LICENSE file. */
const READ_BY_HAND: Record<string, string> = { 'get-stack-trace@3.1.1': 'BSD-3-Clause' }

interface Manifest {
  name: string
  version: string
  license?: unknown
}

test('every package has a licence of the list', () => {
  const strange = packages().filter(({ name, licence }) => !isAllowed(licence) && ALLOWED_FOR_TESTS[name] !== licence)
  assert.deepEqual(strange, [])
})

test('of two licences one has to be allowed where there is a choice, and both where there is none', () => {
  for (const licence of ['MIT', 'MIT-0', '(GPL-3.0 OR MIT)', '(MIT AND Zlib)', 'MIT OR Apache-2.0'])
    assert.ok(isAllowed(licence), licence)
  for (const licence of ['', 'GPL-3.0', 'GPL-3.0 AND MIT', 'SEE LICENSE IN x', 'UNLICENSED', '(MIT AND X) OR ISC'])
    assert.ok(!isAllowed(licence), licence)
})

/** Of packages for other platforms, which are not installed, the lock file has the licence. */
function packages(): { name: string; licence: string }[] {
  const lock = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Manifest>
  }
  return Object.entries(lock.packages).flatMap(([folder, entry]) => {
    if (folder === '') return []
    const file = path.join(ROOT, folder, 'package.json')
    const { license } = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Manifest) : entry
    const name = `${folder.replace(/^.*node_modules\//, '')}@${entry.version}`
    return [{ name, licence: typeof license === 'string' ? license : (READ_BY_HAND[name] ?? '') }]
  })
}

/** @param expression one name, or several with AND or OR between; a mixture of both is refused */
function isAllowed(expression: string): boolean {
  const words = expression.replace(/^\(([^()]*)\)$/, '$1')
  const names = words.split(/ (?:AND|OR) /)
  const isKnown = (name: string) => ALLOWED.has(name)
  if (!words.includes(' OR ')) return names.every(isKnown)
  return !words.includes(' AND ') && names.some(isKnown)
}
