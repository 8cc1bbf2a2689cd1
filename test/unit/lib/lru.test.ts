/** The map that forgets. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LruMap } from '../../../src/lib/lru.ts'

test('the entry that was not used for longest is forgotten first', () => {
  const map = new LruMap<string, number>(2)
  map.set('a', 1)
  map.set('b', 2)
  assert.equal(map.get('a'), 1)
  map.set('c', 3)
  assert.equal(map.get('b'), undefined)
  assert.equal(map.get('a'), 1)
  assert.equal(map.size, 2)
})

test('setting a key again neither grows the map nor keeps the old value', () => {
  const map = new LruMap<string, number>(2)
  map.set('a', 1)
  map.set('b', 2)
  map.set('a', 3)
  assert.equal(map.size, 2)
  map.delete('b')
  assert.equal(map.get('a'), 3)
  assert.equal(map.get('b'), undefined)
})
