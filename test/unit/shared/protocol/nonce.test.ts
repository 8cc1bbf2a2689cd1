/** Nonces: authentic, unexpired, redeemed once (RFC 8555 §6.5). */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  allocateReplayWindow,
  createNonces,
  type NonceSettings,
  openReplayWindow,
} from '../../../../src/shared/protocol/nonce.ts'
import { isAuthentic, redeem } from '../../../support/nonces.ts'

const EPOCH = Date.parse('2026-01-01T00:00:00Z')
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
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  const nonce = nonces.issue(EPOCH - HOUR_MS)
  assert.equal(redeem(nonces, nonce, EPOCH - HOUR_MS), true)
})

test('no other text is authentic: a character changed, forms of other servers, anything', () => {
  const nonces = createNonces(settings(), openReplayWindow(memory()))
  const nonce = nonces.issue(EPOCH)
  const others = ['', nonce.slice(1), `${nonce}A`, `${nonce}==`, nonce.toLowerCase(), 'A'.repeat(22), 'A'.repeat(43)]
  for (const other of others) assert.equal(isAuthentic(nonces, other, EPOCH), false, other)
  fc.assert(
    fc.property(
      fc.string({ maxLength: 30 }),
      fc.nat(21),
      fc.base64String({ minLength: 4, maxLength: 4 }),
      (text, at, swap) => {
        const changed = nonce.slice(0, at) + swap[0] + nonce.slice(at + 1)
        assert.equal(isAuthentic(nonces, text, EPOCH), false)
        if (changed !== nonce) assert.equal(isAuthentic(nonces, changed, EPOCH), false)
      },
    ),
  )
})
