/** Serial numbers (RFC 5280 §4.1.2.2; decisions 15). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseSerialNumbers, randomSerialNumbers } from '../../../src/services/serial-number.ts'

function assertPositive(serial: Buffer): void {
  const first = serial[0] as number
  assert.ok(first > 0 && first < 0x80, serial.toString('hex'))
  assert.ok(serial.length <= 20)
}

test('random serial numbers are positive, at most 20 octets, and do not repeat', async () => {
  const next = randomSerialNumbers()
  const serials = await Promise.all(Array.from({ length: 5_000 }, next))
  serials.forEach(assertPositive)
  assert.equal(new Set(serials.map((serial) => serial.toString('hex'))).size, serials.length)
})

test('database serial numbers end in a number that no other has, over many ranges and callers at once', async () => {
  let range = 7n
  let asked = 0
  const source = () =>
    databaseSerialNumbers(async () => {
      asked++
      await new Promise((resolve) => setImmediate(resolve))
      return range++
    })
  const [one, two] = [source(), source()]
  const serials = await Promise.all(Array.from({ length: 6_000 }, (_, i) => (i % 2 ? one() : two())))
  serials.forEach(assertPositive)
  assert.equal(new Set(serials.map((serial) => serial.toString('hex', 8))).size, serials.length)
  assert.equal(asked, 6)
})

test('a database that fails once is asked again', async () => {
  let failures = 1
  const next = databaseSerialNumbers(async () => {
    if (failures-- > 0) throw new Error('connection lost')
    return 1n
  })
  await assert.rejects(async () => next())
  assertPositive(await next())
})
