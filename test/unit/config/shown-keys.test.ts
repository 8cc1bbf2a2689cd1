/** Of each key of events a test shows what it does (`test/events/keys.ts`). */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { keysOfEvents, SHOWN_BY } from '../../events/keys.ts'

/** Seen from the compiled file. */
const TESTS = path.resolve(import.meta.dirname, '../../../../test')

test('every key of events is in the table, and nothing else is', () =>
  assert.deepEqual(Object.keys(SHOWN_BY).toSorted(), keysOfEvents().toSorted()))

test('the tests of the table are there', () => {
  for (const [key, [file, name]] of Object.entries(SHOWN_BY))
    assert.ok(readFileSync(path.join(TESTS, file), 'utf8').includes(name), `${key}: ${file} has no test "${name}"`)
})
