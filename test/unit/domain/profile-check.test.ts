/** What the trial of a CSR profile on issued certificates shows of them. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newestWithinAnswer } from '../../../src/domain/profile-check.ts'

const example = (names: number, serial = 0) => ({
  serial,
  certificate: { names: Array.from({ length: names }, (_, number) => `${number}.${'x'.repeat(240)}.test`) },
  violations: ['0 common names; the minimum is 1'],
})

test('fifty small examples are all shown', () => {
  const examples = Array.from({ length: 50 }, () => example(1))
  assert.deepEqual(newestWithinAnswer(examples), examples)
})

test('an example with too many names is passed over', () =>
  assert.deepEqual(newestWithinAnswer([example(1_000), example(1)]), [example(1)]))

test('of examples with many names the newest are shown, in under 64 KB', () => {
  const examples = Array.from({ length: 50 }, (_, serial) => example(100, serial))
  const shown = newestWithinAnswer(examples)
  assert.deepEqual(shown, examples.slice(0, 1))
  assert.ok(JSON.stringify(shown).length < 64 * 1024)
})
