/** What the signatures of an operation cost, alone and beside a load. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CryptoCosts, FloorMeter, floorMicros } from '../../../bench/measure/crypto-floor.ts'
import { startFloorBeside } from '../../../bench/measure/floor-beside.ts'

test('a meter that has measured nothing says so', () => {
  assert.equal(new FloorMeter().costs(), undefined)
})

test('the floor of an operation is the sum of its primitives', () => {
  const costs = { jwsVerification: 100, csrVerification: 90, signature: 50 }
  assert.equal(floorMicros({ jwsVerifications: 7, csrVerifications: 1, signatures: 1 }, costs), 840)
})

test('the floor is measured in a process of its own, on the processors of a server', async () => {
  let costs: CryptoCosts | undefined
  // A first burst comes 400 ms after the process has started, which a busy machine delays; and a probe answers once.
  for (let waitMs = 1_500; costs === undefined && waitMs < 30_000; waitMs *= 2) {
    const beside = startFloorBeside(process.pid)
    beside.begin()
    await new Promise((resolve) => setTimeout(resolve, waitMs))
    costs = await beside.end()
  }
  assert.ok(costs)
  // Between a tenth and a hundred times what a current machine takes.
  for (const micros of Object.values(costs)) assert.ok(micros > 5 && micros < 5_000, String(micros))
})

test('a run that is over before the first burst has no floor beside it, and learns that at once', async () => {
  const beside = startFloorBeside(process.pid)
  beside.begin()
  const asked = performance.now()
  assert.equal(await beside.end(), undefined)
  // A probe that says nothing is waited for for five seconds.
  assert.ok(performance.now() - asked < 4_500)
})

test('a server elsewhere, or a process that is not there, has no floor beside it', async () => {
  assert.equal(await startFloorBeside(undefined).end(), undefined)
  assert.equal(await startFloorBeside(2 ** 22 + 1).end(), undefined)
})
