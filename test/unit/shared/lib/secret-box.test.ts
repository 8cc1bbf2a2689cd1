/** Secrets at rest, and what is cut from their files. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { createSecretBox, secretIn, withoutLineEnds } from '../../../../src/shared/lib/secret-box.ts'

describe('secret box', () => {
  const secret = randomBytes(32)
  const box = createSecretBox(secret, 'test')
  const plain = randomBytes(32)

  test('what is sealed opens under the same secret, purpose and name', () => {
    assert.deepEqual(createSecretBox(secret, 'test').open(box.seal(plain, 'row-1'), 'row-1'), plain)
    assert.deepEqual(box.open(box.seal(Buffer.alloc(0), 'empty'), 'empty'), Buffer.alloc(0))
  })

  test('it opens under no other secret, purpose or name', () => {
    const sealed = box.seal(plain, 'row-1')
    assert.equal(box.open(sealed, 'row-2'), undefined)
    assert.equal(createSecretBox(secret, 'other').open(sealed, 'row-1'), undefined)
    assert.equal(createSecretBox(randomBytes(32), 'test').open(sealed, 'row-1'), undefined)
  })

  test('a changed, cut or extended value does not open', () => {
    const sealed = box.seal(plain, 'row-1')
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] as number) ^ 1
      assert.equal(box.open(changed, 'row-1'), undefined, `octet ${at}`)
      assert.equal(box.open(sealed.subarray(0, at), 'row-1'), undefined, `${at} octets`)
    }
    assert.equal(box.open(Buffer.concat([sealed, Buffer.alloc(1)]), 'row-1'), undefined)
  })

  test('the same secret sealed twice is two different values, neither of which shows it', () => {
    const [one, two] = [box.seal(plain, 'row-1'), box.seal(plain, 'row-1')]
    assert.notDeepEqual(one, two)
    assert.ok(!one.includes(plain.subarray(0, 8)))
  })
})

test('line ends behind and a byte order mark before a text are cut, and nothing else', () => {
  for (const text of ['a b', 'a b\n', 'a b\r\n', 'a b\n\n', '\uFEFFa b\n']) assert.equal(withoutLineEnds(text), 'a b')
  for (const text of [' a ', 'a\nb', '']) assert.equal(withoutLineEnds(text), text)
})

test('a file with a text counts without them, a file with random bytes with every byte', () => {
  assert.equal(secretIn(Buffer.from('\uFEFF0123abcd=\r\n')).toString(), '0123abcd=')
  for (const bytes of [Buffer.from([0x80, 0x0a]), Buffer.from([1, 2, 3, 0x0d, 0x0a]), Buffer.from('pässe\n')])
    assert.deepEqual(secretIn(bytes), bytes)
})
