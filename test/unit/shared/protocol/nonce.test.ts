/** Nonces: authentic, unexpired, redeemed once (RFC 8555 §6.5), by whichever thread. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import {
  allocateReplayWindow,
  createNonces,
  type NonceSettings,
  openReplayWindow,
} from '../../../../src/shared/protocol/nonce.ts'
import { isAuthentic, redeem } from '../../../support/clients/nonces.ts'
import { forAll } from '../../../support/property-runs.ts'

const EPOCH = Date.parse('2026-01-01T00:00:00Z')
const YEAR_HOURS = 365 * 24
const HOUR_MS = 3_600_000
const settings = (): NonceSettings => ({ key: randomBytes(32), epochMs: EPOCH, expirySeconds: 3600 })
const memory = () => allocateReplayWindow(12)

test('a nonce is 22 characters of base64url, each one different (§6.5.1)', () => {
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  const issued = Array.from({ length: 500 }, () => nonces.issue(EPOCH))
  assert.equal(new Set(issued).size, 500)
  for (const nonce of issued) assert.match(nonce, /^[A-Za-z0-9_-]{22}$/)
})

test('a nonce is redeemed once, and looking at it does not use it up', () => {
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  const nonce = nonces.issue(EPOCH)
  assert.equal(isAuthentic(nonces, nonce, EPOCH), true)
  assert.equal(isAuthentic(nonces, nonce, EPOCH), true)
  assert.equal(redeem(nonces, nonce, EPOCH), true)
  assert.equal(redeem(nonces, nonce, EPOCH), false)
})

test('threads that share key and window redeem each other’s nonces, once', () => {
  const [shared, window] = [settings(), memory()]
  const one = createNonces(shared, openReplayWindow(window))
  const two = createNonces(shared, openReplayWindow(window))
  const nonce = one.issue(EPOCH)
  assert.equal(redeem(two, nonce, EPOCH), true)
  assert.equal(redeem(one, nonce, EPOCH), false)
})

test('the nonce of another instance, or of before a restart, is not authentic', () => {
  const one = createNonces(settings(), openReplayWindow(memory()))
  const two = createNonces(settings(), openReplayWindow(memory()))
  for (let i = 0; i < 100; i++) {
    const nonce = two.issue(EPOCH)
    assert.equal(isAuthentic(one, nonce, EPOCH), false)
    assert.equal(redeem(one, nonce, EPOCH), false)
  }
})

test('a nonce expires', () => {
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  const nonce = nonces.issue(EPOCH + 550)
  // A nonce's time is kept in tenths of a second.
  const end = EPOCH + 500 + HOUR_MS
  assert.equal(isAuthentic(nonces, nonce, end), true)
  assert.equal(isAuthentic(nonces, nonce, end + 1), false)
  assert.equal(redeem(nonces, nonce, end + 1), false)
})

test('a nonce that is issued late is young, whenever its neighbours were sealed', () => {
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  nonces.issue(EPOCH)
  const late = nonces.issue(EPOCH + HOUR_MS)
  assert.equal(redeem(nonces, late, EPOCH + 2 * HOUR_MS - 10_000), true)
})

test('a short-lived nonce is not issued old', () => {
  const nonces = createNonces({ ...settings(), expirySeconds: 1 }, openReplayWindow(memory()))
  for (let at = EPOCH; at < EPOCH + 4_000; at += 130) assert.equal(redeem(nonces, nonces.issue(at), at + 650), true)
})

test('a clock that was set back to before the start stops nothing', () => {
  for (const hours of [1, 10 * YEAR_HOURS, 27 * YEAR_HOURS]) {
    const nonces = createNonces(settings(), openReplayWindow(memory()))
    const nonce = nonces.issue(EPOCH - hours * HOUR_MS)
    assert.equal(redeem(nonces, nonce, EPOCH - hours * HOUR_MS), true)
  }
})

test('a start 14 or 60 years before the time that the clock is set right to stops nothing', () => {
  for (const years of [14, 60]) {
    const nonces = createNonces(settings(), openReplayWindow(memory()))
    const now = EPOCH + years * YEAR_HOURS * HOUR_MS
    const nonce = nonces.issue(now)
    assert.equal(isAuthentic(nonces, nonce, now + HOUR_MS / 2), true)
    assert.equal(isAuthentic(nonces, nonce, now + 2 * HOUR_MS), false)
    assert.equal(redeem(nonces, nonce, now), true)
  }
})

test('no other text is authentic: a character changed, forms of other servers, anything', () => {
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  const nonce = nonces.issue(EPOCH)
  const others = ['', nonce.slice(1), `${nonce}A`, `${nonce}==`, nonce.toLowerCase(), 'A'.repeat(22), 'A'.repeat(43)]
  for (const other of others) assert.equal(isAuthentic(nonces, other, EPOCH), false, other)
  forAll(
    fc.string({ maxLength: 30 }),
    fc.nat(21),
    fc.base64String({ minLength: 4, maxLength: 4 }),
    (text, at, swap) => {
      const changed = nonce.slice(0, at) + swap[0] + nonce.slice(at + 1)
      assert.equal(isAuthentic(nonces, text, EPOCH), false)
      if (changed !== nonce) assert.equal(isAuthentic(nonces, changed, EPOCH), false)
    },
  )
})

/** 2^8 bits: eight blocks of 32, of which the newest four are inside. */
const SMALL = 8

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
  forAll(fc.array(step, { maxLength: 300 }), (steps) => {
    const window = openReplayWindow(allocateReplayWindow(SMALL))
    const redeemed = new Set<number>()
    for (const what of steps) {
      if (what === 'issue') window.nextBlock()
      else if (window.redeem(what)) {
        assert.equal(redeemed.has(what), false)
        redeemed.add(what)
      }
    }
  })
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
