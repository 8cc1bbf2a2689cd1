import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedWork, TooManyWaiting } from '../../../../src/shared/lib/caching.ts'

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
