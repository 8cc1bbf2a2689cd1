import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { importPublicKey, parseSpki, verifySignature } from '../../../../src/shared/pki/algorithms.ts'
import { bits, der, hex, NULL, sequence } from '../../../corpus/der.ts'
import { RSA_ENCRYPTION } from '../../../corpus/requests.ts'
import { ALL_KEYS } from './support.ts'

describe('importing public keys', () => {
  for (const { label, spki } of ALL_KEYS)
    test(`a ${label} key is imported as it stands`, () =>
      assert.deepEqual(importPublicKey(parseSpki(spki))?.export({ type: 'spki', format: 'der' }), spki))

  for (const { label, spki } of ALL_KEYS.filter(({ label }) => label.startsWith('P-')))
    test(`a point off ${label} is refused`, () => {
      const changed = Buffer.from(spki)
      changed[changed.length - 1]! ^= 1
      assert.equal(importPublicKey(parseSpki(changed)), undefined)
    })

  // None of these may raise an exception or take long, whatever the caller checked before.
  const numbers: [string, Buffer, Buffer][] = [
    ['zero', hex('00'), hex('00')],
    ['one', hex('01'), hex('03')],
    ['even', Buffer.alloc(256, 0xfe), hex('010001')],
    ['of 200000 bits', Buffer.alloc(25000, 0xff), hex('03')],
    ['with an exponent of its own size', Buffer.alloc(2048, 0xff), Buffer.alloc(2048, 0xfd)],
  ]
  for (const [what, modulus, exponent] of numbers)
    test(`an RSA modulus ${what} verifies nothing`, () => {
      const key = sequence(...[modulus, exponent].map((number) => der(0x02, Buffer.alloc(number[0]! >> 7), number)))
      const spki = parseSpki(sequence(sequence(RSA_ENCRYPTION, NULL), bits(key)))
      for (const length of [0, modulus.length])
        assert.equal(verifySignature('SHA256withRSA', hex('00'), spki, Buffer.alloc(length, 1)), false)
    })
})
