import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { oncePerKey } from '../../../../src/shared/lib/once.ts'

describe('work once per key', () => {
  test('is shared by all who want it meanwhile, and by those who come later', async () => {
    const asked: string[] = []
    const lengthOf = oncePerKey(async (text: string) => {
      asked.push(text)
      await Promise.resolve()
      return text.length
    }, new Map())
    assert.deepEqual(await Promise.all([lengthOf('a'), lengthOf('bc'), lengthOf('a')]), [1, 2, 1])
    assert.equal(await lengthOf('bc'), 2)
    assert.deepEqual(asked, ['a', 'bc'])
  })
  test('that failed fails for those who waited, and is done anew for who comes later', async () => {
    let tries = 0
    const flaky = oncePerKey(async (_: string) => {
      if (++tries === 1) throw new Error('away')
      return tries
    }, new Map())
    const both = await Promise.allSettled([flaky('a'), flaky('a')])
    assert.deepEqual(
      both.map(({ status }) => status),
      ['rejected', 'rejected'],
    )
    assert.equal(await flaky('a'), 2)
    assert.equal(tries, 2)
  })
  test('may hold its results no longer than their keys live', async () => {
    const key = {}
    const results = new WeakMap<object, Promise<number>>()
    assert.equal(await oncePerKey(async () => 7, results)(key), 7)
    assert.equal(await results.get(key), 7)
  })
})
