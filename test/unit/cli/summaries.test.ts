/** What an operation does is said once: a command takes the summary of its operation, or says something else. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ENDPOINTS } from '../../../src/admin/endpoints.ts'
import { SUMMARIES } from '../../../src/admin/summaries.ts'
import { ADMIN_COMMANDS, SESSION_COMMANDS } from '../../../src/cli/admin/admin-commands.ts'
import { OPERATION_ROWS } from '../../../src/cli/admin/operation-table.ts'
import { textOf } from '../../support/sources.ts'

const ALL: readonly string[] = Object.values(SUMMARIES)

test('each operation has a summary, and each summary an operation', () => {
  assert.deepEqual(Object.keys(SUMMARIES).toSorted(), ENDPOINTS.map(({ id }) => id).toSorted())
})

test('the sentences load nothing, as each command loads them', () => {
  assert.doesNotMatch(textOf('src/admin/summaries.ts'), /\bimport\b/)
})

test('a summary begins with what the operation does, and one sentence has no full stop', () => {
  const wrong = ALL.filter((text) => !/^[A-Z][a-z]+ /.test(text) || /^\w+s /.test(text) || /^[^.]*\.$/.test(text))
  assert.deepEqual(wrong, [])
})

test('only a row that is more or less than one operation has a sentence of its own', () => {
  const own = OPERATION_ROWS.filter(({ about, ofEab, fixed }) => about !== undefined && !ofEab && !fixed)
  assert.deepEqual(
    own.map(({ usage }) => usage),
    ['overview', 'settings', 'admin create-user'],
  )
})

const wordsOf = (text: string) => new Set(text.toLowerCase().match(/[\w-]+/g))

/** The share of the words of both that both have. */
function likeness(one: string, other: string): number {
  const [words, others] = [wordsOf(one), wordsOf(other)]
  const common = [...words].filter((word) => others.has(word)).length
  return common / (words.size + others.size - common)
}

test('no sentence of a command is nearly a summary', () => {
  // A command for accounts and credentials has two operations.
  const ofOne = [...ADMIN_COMMANDS, ...SESSION_COMMANDS].filter(({ options = {} }) => !('eab' in options))
  const near = ofOne.flatMap(({ usage, about }) =>
    [about].flat().flatMap((line) => {
      if (ALL.includes(line)) return []
      const summary = ALL.find((one) => likeness(one, line) > 0.6)
      return summary === undefined ? [] : [`${usage}: ${line} (${summary})`]
    }),
  )
  assert.deepEqual(near, [])
})
