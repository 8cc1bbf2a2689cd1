/** Which databases use a signer at the same time: what it makes of announcements every ten seconds. */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, test } from 'node:test'
import { AnnouncedDatabases } from '../../../signer/methods/handlers.ts'
import { ANNOUNCE_MS, METHODS } from '../../../signer/protocol/methods.ts'

const [A, B] = [randomUUID(), randomUUID()]
const EVERY = ANNOUNCE_MS

describe('databases that are announced at a signer', () => {
  let announced: AnnouncedDatabases
  beforeEach(() => {
    announced = new AnnouncedDatabases()
  })
  const announce = (at: number, database: string, incarnation = '1', remember = true) => {
    const params = { database, incarnation, requester: `of ${incarnation}`, remember }
    const { others, settled } = METHODS.announceDatabase.result.parse(announced.announce(params, at))
    return [...others.map((one) => `${one.database === A ? 'A' : 'B'} in ${one.incarnation}`), settled]
  }

  test('are no others where one is alone, however many services have it', () => {
    for (let at = 0; at < 5 * EVERY; at += EVERY / 2) assert.deepEqual(announce(at, A), [true])
  })

  test('are told to both sides once both go on; until then it is not settled', () => {
    assert.deepEqual(announce(0, A), [true])
    assert.deepEqual(announce(1, B), [false])
    assert.deepEqual(announce(EVERY, A), [false])
    assert.deepEqual(announce(EVERY + 1, B), [false])
    assert.deepEqual(announce(2 * EVERY, A), ['B in 1', true])
    assert.deepEqual(announce(2 * EVERY + 1, B), ['A in 1', true])
  })

  test('are one where a standby was promoted: its predecessor is announced no more, but for what was under way', () => {
    announce(0, A, 'former')
    assert.deepEqual(announce(1, A, 'new'), [false])
    assert.deepEqual(announce(2, A, 'former'), [false])
    assert.deepEqual(announce(EVERY, A, 'new'), [false])
    assert.deepEqual(announce(2 * EVERY + 2, A, 'new'), [true])
    for (let at = 3 * EVERY; at < 8 * EVERY; at += EVERY) assert.deepEqual(announce(at, A, 'new'), [true])
  })

  test('are two where a former primary goes on: a split brain', () => {
    announce(0, A, 'former')
    announce(1, A, 'new')
    announce(EVERY, A, 'former')
    announce(EVERY + 1, A, 'new')
    assert.deepEqual(announce(2 * EVERY, A, 'former'), ['A in new', true])
    assert.deepEqual(announce(2 * EVERY + 1, A, 'new'), ['A in former', true])
  })

  test('are forgotten a minute after the last time', () => {
    for (let at = 0; at <= 3 * EVERY; at += EVERY) {
      announce(at, A)
      announce(at, B)
    }
    assert.deepEqual(announce(3 * EVERY + 59_000, A), ['B in 1', true])
    assert.deepEqual(announce(3 * EVERY + 60_000, A), [true])
  })

  test('are told to a command, which is none of them', () => {
    announce(0, A)
    assert.deepEqual(announce(1, B, '1', false), ['A in 1', true])
    assert.deepEqual(announce(2, A, '1', false), [true])
    assert.deepEqual(announce(3, A), [true])
    assert.deepEqual(announce(3 + 2 * EVERY, B, '1', false), [true], 'a silent one has ended, or is about to')
  })

  test('are at most 16, the newest', () => {
    for (let at = 0; at < 3; at++) for (let n = 0; n < 40; n++) announce(at * EVERY, A, String(n))
    assert.equal(announce(3 * EVERY, A, '39').length - 1, 0)
    announced = new AnnouncedDatabases()
    for (let at = 0; at < 3; at++) for (let n = 0; n < 16; n++) announce(at * EVERY, A, String(n))
    assert.equal(announce(3 * EVERY, A, '15').length - 1, 15)
  })
})
