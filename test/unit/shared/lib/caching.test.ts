/** What is kept for a while, and work that is done once for many. */

import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { CommandDropped } from '../../../../src/shared/lib/batcher.ts'
import {
  LruMap,
  oncePerKey,
  RecentSet,
  sharedRuns,
  sharedWork,
  TooManyWaiting,
} from '../../../../src/shared/lib/caching.ts'
import { each } from '../../../support/each.ts'
import { forAll } from '../../../support/property-runs.ts'
import { until } from '../../../support/until.ts'

test('an entry with a life is gone after it, however often it was read', async () => {
  const map = new LruMap<string, number>(2, 150)
  map.set('a', 1)
  assert.equal(map.get('a'), 1)
  await until('it is gone', () => map.get('a') === undefined)
})

test('whatever is asked, set and deleted, it holds what a list in the order of use would', () => {
  const step = fc.tuple(fc.constantFrom('get', 'set', 'delete'), fc.nat(6), fc.nat(99))
  forAll(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 60 }), (capacity, steps) => {
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
  })
})

const LIFE_MS = 100

describe('a set that remembers for a while', () => {
  let now = 0
  beforeEach(() => {
    now = 1_000
    mock.method(performance, 'now', () => now)
  })
  afterEach(() => mock.restoreAll())

  test('whatever is added is there for its life, and gone after three times that', () => {
    const step = fc.record({ ms: fc.nat(150), member: fc.nat(5) })
    forAll(fc.array(step, { maxLength: 60 }), (steps) => {
      const set = new RecentSet<number>(LIFE_MS)
      const addedAt = new Map<number, number>()
      for (const { ms, member } of steps) {
        now += ms
        for (const [other, at] of addedAt) {
          if (now - at < LIFE_MS) assert.equal(set.has(other), true)
          if (now - at >= 3 * LIFE_MS) assert.equal(set.has(other), false)
        }
        set.add(member)
        addedAt.set(member, now)
        assert.equal(set.has(-1), false, 'never added')
      }
    })
  })
})

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
    assert.deepEqual(each(both, 'status'), ['rejected', 'rejected'])
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

/** Work that ends when the test says so. */
function aWork() {
  const ends: (() => void)[] = []
  const begins: number[] = []
  const work = async () => {
    begins.push(performance.now())
    const turn = begins.length
    await new Promise<void>((resolve) => ends.push(resolve))
    return turn
  }
  return { work, ends, begins }
}

describe('work that is shared', () => {
  test('is done once for all who ask at a time', async () => {
    const { work, ends, begins } = aWork()
    const ask = sharedWork(work, { intervalMs: 0, mostWaiting: 1000 })
    const answers = Array.from({ length: 1000 }, ask)
    await sleep(1)
    ends[0]?.()
    assert.deepEqual(new Set(await Promise.all(answers)), new Set([1]))
    assert.equal(begins.length, 1)
  })

  test('is done once more for those who ask meanwhile, so that no answer is older than its question', async () => {
    const { work, ends, begins } = aWork()
    const ask = sharedWork(work, { intervalMs: 0, mostWaiting: 10 })
    const first = ask()
    await sleep(1)
    const later = [ask(), ask()]
    await sleep(1)
    assert.equal(begins.length, 1)
    ends[0]?.()
    assert.equal(await first, 1)
    await sleep(1)
    ends[1]?.()
    assert.deepEqual(await Promise.all(later), [2, 2])
  })

  test('begins no more often than the interval allows', async () => {
    const { work, ends, begins } = aWork()
    const ask = sharedWork(
      async () => {
        const result = work()
        ends.pop()?.()
        return result
      },
      { intervalMs: 50, mostWaiting: 10 },
    )
    for (let i = 0; i < 4; i++) await ask()
    // A timer of Node.js may fire a millisecond early.
    for (let i = 1; i < 4; i++) assert.ok((begins[i] as number) - (begins[i - 1] as number) >= 48)
  })

  test('is not waited for by more than a bound', async () => {
    const { work, ends } = aWork()
    const ask = sharedWork(work, { intervalMs: 0, mostWaiting: 2 })
    const first = ask()
    await sleep(1)
    const waiting = [ask(), ask()]
    await assert.rejects(ask(), TooManyWaiting)
    ends[0]?.()
    await first
    await sleep(1)
    ends[1]?.()
    assert.deepEqual(await Promise.all(waiting), [2, 2])
  })

  test('that fails does so for all who wait for it, and is done anew for others', async () => {
    let turn = 0
    const ask = sharedWork(
      async () => {
        if (++turn === 1) throw new Error('no')
        return turn
      },
      { intervalMs: 0, mostWaiting: 10 },
    )
    const failed = [ask(), ask()]
    for (const one of failed) await assert.rejects(one, /no/)
    assert.equal(await ask(), 2)
  })
})
