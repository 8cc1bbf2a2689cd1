/** Secrets at rest. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { createSecretBox } from '../../../../src/shared/lib/secret-box.ts'

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
