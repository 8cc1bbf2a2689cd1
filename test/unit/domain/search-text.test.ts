/** What a text in the search field may be. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { coveringNames, readSearch } from '../../../src/domain/search-text.ts'

describe('a text in the search field', () => {
  test('is a name in A-labels, however it is typed', () => {
    for (const typed of ['Bücher.example', 'xn--bcher-kva.EXAMPLE', ' .bücher.example ', 'bücher.example.'])
      assert.equal(readSearch(typed).name, 'xn--bcher-kva.example', typed)
    assert.equal(readSearch('*.Shop.test').name, '*.shop.test')
    assert.equal(readSearch('2001:DB8:0:0::1').name, '2001:db8::1')
    for (const typed of ['a b', '%', 'ops@shop.test', '', '..', 'a..b'])
      assert.equal(readSearch(typed).name, undefined, typed)
  })

  test('is the beginning of a serial number or fingerprint, with or without colons and spaces', () => {
    for (const typed of ['0A1B2C', '0a:1b:2c', '0A 1B 2C']) assert.equal(readSearch(typed).hex, '0a1b2c', typed)
    for (const typed of ['abc', 'xyz1', 'f'.repeat(65)]) assert.equal(readSearch(typed).hex, undefined, typed)
  })

  test('is an id in either case', () => {
    const id = '01938c4e-0000-7000-8000-00000000abcd'
    assert.equal(readSearch(id.toUpperCase()).id, id)
    assert.equal(readSearch(id.slice(1)).id, undefined)
  })
})

test('a name is covered by itself and by the wildcard beside it', () => {
  assert.deepEqual(coveringNames('www.shop.test'), ['www.shop.test', '*.shop.test'])
  for (const alone of ['*.shop.test', 'localhost', '192.0.2.1']) assert.deepEqual(coveringNames(alone), [alone])
})
