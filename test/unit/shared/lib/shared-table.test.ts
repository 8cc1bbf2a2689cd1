import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { allocateSharedTable, openSharedTable } from '../../../../src/shared/lib/shared-memory.ts'

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
