import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { editDistance, nearest } from '../../../../src/shared/config-file/suggest.ts'

describe('suggestions', () => {
  const distances: [string, string, number][] = [
    ['', '', 0],
    ['port', 'port', 0],
    ['prot', 'port', 1],
    ['por', 'port', 1],
    ['ports', 'port', 1],
    ['kitten', 'sitting', 3],
    ['', 'abc', 3],
  ]
  for (const [a, b, expected] of distances) {
    test(`${JSON.stringify(a)} and ${JSON.stringify(b)} are ${expected} apart`, () =>
      assert.equal(editDistance(a, b), expected))
  }

  test('the distance is symmetric and zero only for equal texts', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (a, b) => {
        assert.equal(editDistance(a, b), editDistance(b, a))
        assert.equal(editDistance(a, b) === 0, a === b)
      }),
    )
  })

  test('a far word suggests nothing', () => assert.equal(nearest('zebra', ['port', 'bind']), undefined))
})
