/** The map that forgets. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LruMap } from '../../../../src/shared/lib/caching.ts'
import { until } from '../../../support/until.ts'

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

test('an entry with a life is gone after it, however often it was read', async () => {
  const map = new LruMap<string, number>(2, 150)
  map.set('a', 1)
  assert.equal(map.get('a'), 1)
  await until('it is gone', () => map.get('a') === undefined)
})

test('whatever is asked, set and deleted, it holds what a list in the order of use would', () => {
  const step = fc.tuple(fc.constantFrom('get', 'set', 'delete'), fc.nat(6), fc.nat(99))
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 60 }), (capacity, steps) => {
      const map = new LruMap<number, number>(capacity)
      let model: [number, number][] = []
      for (const [what, key, value] of steps) {
        const known = model.find(([one]) => one === key)
        if (what === 'get') assert.equal(map.get(key), known?.[1])
        else if (what === 'set') map.set(key, value)
        else map.delete(key)
        const kept = model.filter((one) => one !== known)
        const used: [number, number] | undefined = what === 'set' ? [key, value] : what === 'get' ? known : undefined
        model = (used ? [...kept, used] : kept).slice(-capacity)
        assert.equal(map.size, model.length)
      }
      for (const [key, value] of model) assert.equal(map.get(key), value)
    }),
  )
})
