/** What threads share: a table of numbers, and announcements of changes. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import {
  allocateChangeCounters,
  allocateSharedTable,
  openChangeCounters,
  openSharedTable,
} from '../../../../src/shared/lib/shared-memory.ts'

const MODULE = new URL('../../../../src/shared/lib/shared-memory.js', import.meta.url).href

const read = (memory: SharedArrayBuffer, key: string) => openSharedTable(memory).get(key)

describe('shared table', () => {
  test('an unknown key is zero, and keeps what it is given', () => {
    const memory = allocateSharedTable(4)
    assert.equal(read(memory, 'a'), 0)
    openSharedTable(memory).update('a', (value) => value + 1.5)
    assert.equal(read(memory, 'a'), 1.5)
    assert.equal(read(memory, 'b'), 0)
  })

  test('reading makes no room for what it does not find', () => {
    const table = openSharedTable(allocateSharedTable(0))
    for (let i = 1; i <= 16; i++) table.update(`key-${i}`, () => i)
    for (let i = 0; i < 100; i++) assert.equal(table.get(`unknown-${i}`), 0)
    for (let i = 1; i <= 16; i++) assert.equal(table.get(`key-${i}`), i)
  })

  test('no update is lost among threads', async () => {
    const memory = allocateSharedTable(1)
    const source = `
      const { workerData } = require('node:worker_threads')
      import(workerData.module).then(({ openSharedTable }) => {
        const table = openSharedTable(workerData.memory)
        for (let i = 0; i < 20000; i++) table.update('key ' + (i % 5), (value) => value + 1)
      })`
    const threads = [1, 2, 3].map(() => new Worker(source, { eval: true, workerData: { memory, module: MODULE } }))
    for (const [code] of await Promise.all(threads.map((thread) => once(thread, 'exit')))) assert.equal(code, 0)
    for (let i = 0; i < 5; i++) assert.equal(read(memory, `key ${i}`), 12_000)
  })

  test('a full bucket forgets the smallest number first', () => {
    const memory = allocateSharedTable(0)
    const table = openSharedTable(memory)
    for (let i = 1; i <= 16; i++) table.update(`key ${i}`, () => 100 + i)
    table.update('late', () => 200)
    assert.equal(read(memory, 'late'), 200)
    assert.equal(read(memory, 'key 16'), 116)
  })

  test('a lock whose holder was paused with all the machine is left to it', (t) => {
    const memory = allocateSharedTable(0)
    const lock = new Int32Array(memory, 32, 1)
    Atomics.store(lock, 0, 12_345)
    let looks = 0
    t.mock.method(performance, 'now', () => {
      // The machine stands still for ten seconds, and the holder is done soon after.
      if (++looks === 20) Atomics.store(lock, 0, 0)
      return looks + (looks > 2 ? 10_000 : 0)
    })
    openSharedTable(memory).update('key', () => 1)
    assert.ok(looks >= 20, `taken after ${looks} looks`)
  })

  test('a lock that a dead thread left behind is taken over', () => {
    const memory = allocateSharedTable(0)
    Atomics.store(new Int32Array(memory, 32, 1), 0, 12_345)
    openSharedTable(memory).update('key', () => 1)
    assert.equal(read(memory, 'key'), 1)
  })
})

const AUTHORIZATION = '0199a0b0-1c2d-7e3f-8a4b-5c6d7e8f9a00'
const ITS_CHALLENGE = '0199a0b0-1c2d-7e3f-8a4b-5c6d7e8f9a02'
const ANOTHER = '0199a0b0-1c2d-7e3f-8a4b-5c6d7e800110'

test('a change that one thread announces is counted for the others, and for no other id', () => {
  const memory = allocateChangeCounters()
  const [one, other] = [openChangeCounters(memory), openChangeCounters(memory)]
  const before = [other.count(AUTHORIZATION), other.count(ANOTHER)]
  one.announce(AUTHORIZATION)
  assert.deepEqual([other.count(AUTHORIZATION), other.count(ANOTHER)], [before[0]! + 1, before[1]])
})

test('an authorization and its challenges are one', () => {
  const changes = openChangeCounters(allocateChangeCounters())
  const before = changes.count(AUTHORIZATION)
  changes.announce(ITS_CHALLENGE)
  assert.notEqual(changes.count(AUTHORIZATION), before)
})

test('a change counts when it begins and when it ends, also when it fails', async () => {
  const changes = openChangeCounters(allocateChangeCounters())
  const start = changes.count(AUTHORIZATION)
  let during = start
  const failing = changes.whileChanging(AUTHORIZATION, async () => {
    during = changes.count(AUTHORIZATION)
    throw new Error('lost')
  })
  await assert.rejects(failing, /lost/)
  assert.equal(during, start + 1)
  assert.equal(changes.count(AUTHORIZATION), start + 2)
})
