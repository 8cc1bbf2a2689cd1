/** base64url without padding: one text for one value. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeBase64url, encodeBase64url, isBase64url } from '../../../../src/shared/lib/encoding.ts'
import { propertyRuns } from '../../../support/property-runs.ts'
import { words } from '../../../support/words.ts'

test('the vectors of RFC 4648 §10 decode without their padding', () => {
  const vectors = { '': '', Zg: 'f', Zm8: 'fo', Zm9v: 'foo', Zm9vYg: 'foob', Zm9vYmE: 'fooba', Zm9vYmFy: 'foobar' }
  for (const [text, value] of Object.entries(vectors)) {
    assert.equal(decodeBase64url(text)?.toString(), value)
    assert.equal(encodeBase64url(Buffer.from(value)), text)
  }
})

test('the example of RFC 7515 appendix C decodes', () =>
  assert.deepEqual(decodeBase64url('A-z_4ME'), Buffer.from([3, 236, 255, 224, 193])))

for (const text of ['Zm 8', 'Zm8\n', ' Zm8', '\0\0\0\0', ...words`Zg== Zg= Zm8= Z Zm9vY Zh Zm9 A+z/4ME Zm8é`])
  test(`${JSON.stringify(text)} is refused`, () => {
    assert.equal(decodeBase64url(text), undefined)
    assert.equal(isBase64url(text), false)
  })

test('any bytes survive the way there and back', () =>
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) =>
      assert.deepEqual(decodeBase64url(encodeBase64url(bytes)), Buffer.from(bytes)),
    ),
  ))

test('whatever is accepted is the one spelling of its bytes', () => {
  const characters = fc.constantFrom(...'ABQgwxyz019-_=+/ ')
  fc.assert(
    fc.property(fc.string({ unit: characters, maxLength: 12 }), (text) => {
      const bytes = decodeBase64url(text)
      if (bytes) assert.equal(encodeBase64url(bytes), text)
    }),
    propertyRuns(),
  )
})
