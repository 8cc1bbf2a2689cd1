/** What is cut from a secret, and what is not. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { secretIn, withoutLineEnds } from '../../../../src/shared/lib/secret-box.ts'

test('line ends behind and a byte order mark before a text are cut, and nothing else', () => {
  for (const text of ['a b', 'a b\n', 'a b\r\n', 'a b\n\n', '\uFEFFa b\n']) assert.equal(withoutLineEnds(text), 'a b')
  for (const text of [' a ', 'a\nb', '']) assert.equal(withoutLineEnds(text), text)
})

test('a file with a text counts without them, a file with random bytes with every byte', () => {
  assert.equal(secretIn(Buffer.from('\uFEFF0123abcd=\r\n')).toString(), '0123abcd=')
  for (const bytes of [Buffer.from([0x80, 0x0a]), Buffer.from([1, 2, 3, 0x0d, 0x0a]), Buffer.from('pässe\n')])
    assert.deepEqual(secretIn(bytes), bytes)
})
