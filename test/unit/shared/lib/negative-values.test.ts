/** Negative numbers on a command line: values, where a flag stands before them. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinNegativeValues } from '../../../../src/shared/lib/negative-values.ts'

test('a negative number behind a flag is its value', () => {
  assert.deepEqual(joinNegativeValues(['keygen', '--path-length', '-1', '--out', 'a']), [
    'keygen',
    '--path-length=-1',
    '--out',
    'a',
  ])
  assert.deepEqual(joinNegativeValues(['tail', '-n', '-5', 'file']), ['tail', '-n=-5', 'file'])
})

test('everything else stays as it was typed', () => {
  for (const words of [[], ['-1'], ['a', '-1'], ['--port=1', '-1'], ['--debug', '-v'], ['--id', '01']])
    assert.deepEqual(joinNegativeValues(words), words)
})
