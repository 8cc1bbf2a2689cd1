import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { nearest } from '../../../../src/shared/config-file/suggest.ts'
import { forAll } from '../../../support/property-runs.ts'

describe('suggestions', () => {
  const slips: [string, string][] = [
    ['port', 'port'],
    ['prot', 'port'],
    ['por', 'port'],
    ['ports', 'port'],
    ['PORT', 'port'],
    ['sittings', 'sitting'],
    ['max-retires', 'max_retries'],
  ]
  for (const [typed, meant] of slips)
    test(`${typed} suggests ${meant}`, () => assert.equal(nearest(typed, ['bind', 'other', meant]), meant))

  test('a far word suggests nothing', () => assert.equal(nearest('zebra', ['port', 'bind']), undefined))

  test('two edits of a short word suggest nothing', () => assert.equal(nearest('pots', ['bind', 'port_']), undefined))

  test('a known name suggests itself', () =>
    forAll(fc.array(fc.stringMatching(/^[a-z_]{1,12}$/), { minLength: 1 }), (names) => {
      for (const name of names) assert.equal(nearest(name, names), name)
    }))
})
