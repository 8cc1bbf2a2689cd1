import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CommandDropped } from '../../../../src/shared/lib/batcher.ts'
import { oncePerKey, sharedRuns } from '../../../../src/shared/lib/caching.ts'

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
    const found = both.map(({ status }) => status)
    assert.deepEqual(found, ['rejected', 'rejected'])
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

describe('equal work under way', () => {
  test('is shared by who comes meanwhile, and done anew for who comes later, also after a failure', async () => {
    const shared = sharedRuns<number>()
    let runs = 0
    const work = async () => {
      await Promise.resolve()
      if (++runs === 2) throw new Error('away')
      return runs
    }
    assert.deepEqual(await Promise.all([shared('a', work), shared('a', work)]), [1, 1])
    const failed = await Promise.allSettled([shared('a', work), shared('a', work)])
    assert.ok(failed.every(({ status }) => status === 'rejected'))
    assert.deepEqual(await Promise.all([shared('a', work), shared('b', work)]), [3, 4])
  })
  test('is told that all have gone only when the last of them has', async () => {
    const shared = sharedRuns<boolean>()
    const gone = [false, false]
    let isGone = () => false
    const end = new Promise<void>((resolve) => setImmediate(resolve))
    const work = async (all: () => boolean) => {
      isGone = all
      await end
      return all()
    }
    const both = gone.map((_, i) => shared('a', work, () => gone[i] === true))
    gone[0] = true
    assert.equal(isGone(), false)
    gone[1] = true
    assert.deepEqual(await Promise.all(both), [true, true])
  })

  test('runs once more for a request that joins a run which is dropped, and stays', async () => {
    const shared = sharedRuns<string>()
    let runs = 0
    const work = async () => {
      if (++runs > 1) return 'done'
      await Promise.resolve()
      throw new CommandDropped()
    }
    const results = await Promise.allSettled([
      shared('a', work, () => true),
      shared('a', work, () => false),
      shared('a', work, () => false),
      shared('a', work, () => true),
    ])
    const found = results.map((result) =>
      result.status === 'fulfilled' ? result.value : result.reason instanceof CommandDropped,
    )
    assert.deepEqual(found, [true, 'done', 'done', true])
    assert.equal(runs, 2)
  })
})
