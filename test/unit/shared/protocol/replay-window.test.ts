/** The replay window: a counter is redeemed at most once, by whichever thread. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { allocateReplayWindow, openReplayWindow } from '../../../../src/shared/protocol/nonce.ts'

/** 2^8 bits: eight blocks of 32, of which the newest four are inside. */
const SMALL = 8

test('a counter is redeemed once', () => {
  const window = openReplayWindow(allocateReplayWindow(SMALL))
  const first = window.nextBlock()
  for (let i = 0; i < 32; i++) {
    assert.equal(window.redeem(first + i), true)
    assert.equal(window.redeem(first + i), false)
  }
})

test('what was not issued cannot be redeemed', () => {
  const window = openReplayWindow(allocateReplayWindow(SMALL))
  assert.equal(window.redeem(0), false)
  const first = window.nextBlock()
  assert.equal(window.redeem(first + 32), false)
  assert.equal(window.redeem(2 ** 47), false)
})

test('a counter is stale when half the window has been issued after it', () => {
  const window = openReplayWindow(allocateReplayWindow(SMALL))
  const first = window.nextBlock()
  const second = window.nextBlock()
  window.nextBlock()
  window.nextBlock()
  assert.equal(window.redeem(first), true)
  window.nextBlock()
  assert.equal(window.redeem(first + 1), false)
  assert.equal(window.redeem(second), true)
})

test('after the ring has gone round, its bits serve new counters and old ones stay stale', () => {
  const window = openReplayWindow(allocateReplayWindow(SMALL))
  for (let round = 0; round < 50; round++) {
    const block = window.nextBlock()
    assert.equal(block, round * 32)
    for (let i = 0; i < 32; i += 5) assert.equal(window.redeem(block + i), true, `${block + i}`)
    for (let i = 0; i < 32; i += 5) assert.equal(window.redeem(block + i), false)
    for (let old = 0; old < block - 96; old += 7) assert.equal(window.redeem(old), false)
  }
})

test('whatever the order of issuing and redeeming, no counter is redeemed twice', () => {
  const step = fc.oneof(
    { weight: 1, arbitrary: fc.constant('issue' as const) },
    { weight: 4, arbitrary: fc.nat({ max: 2_000 }) },
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const window = openReplayWindow(allocateReplayWindow(SMALL))
      const redeemed = new Set<number>()
      for (const what of steps) {
        if (what === 'issue') window.nextBlock()
        else if (window.redeem(what)) {
          assert.equal(redeemed.has(what), false)
          redeemed.add(what)
        }
      }
    }),
  )
})

interface Outcome {
  issued: number[]
  redeemed: number[]
}

function inThread(memory: SharedArrayBuffer, counters: number[], issue: number): Promise<Outcome> {
  const worker = new Worker(new URL('./replay-window.worker.js', import.meta.url), {
    workerData: { memory, counters, issue },
  })
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
}

test('four threads that redeem the same counters redeem each once', async () => {
  const memory = allocateReplayWindow(18)
  const window = openReplayWindow(memory)
  const counters: number[] = []
  for (let block = 0; block < 1_000; block++) {
    const first = window.nextBlock()
    for (let i = 0; i < 32; i++) counters.push(first + i)
  }
  const outcomes = await Promise.all(Array.from({ length: 4 }, () => inThread(memory, counters, 0)))
  const all = outcomes.flatMap(({ redeemed }) => redeemed)
  assert.equal(all.length, counters.length)
  assert.equal(new Set(all).size, counters.length)
})

test('four threads that issue at once never issue the same block', async () => {
  const memory = allocateReplayWindow(18)
  const outcomes = await Promise.all(Array.from({ length: 4 }, () => inThread(memory, [], 5_000)))
  assert.equal(new Set(outcomes.flatMap(({ issued }) => issued)).size, 20_000)
})
