/** Serial numbers (RFC 5280 §4.1.2.2): form and uniqueness. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { databaseSerialNumbers, randomSerialNumbers } from '../../../src/services/serial-number.ts'

/** Positive, no leading zero octet, at most 20 octets. */
function requireForm(serial: Buffer): void {
  const first = serial[0] as number
  assert.ok(first > 0 && first < 0x80, serial.toString('hex'))
  assert.ok(serial.length >= 8 && serial.length <= 20)
}

const setOf = (serials: readonly Buffer[]) => new Set(serials.map((serial) => serial.toString('hex')))

describe('random serial numbers', () => {
  test('have 17 octets, are well-formed and all differ', async () => {
    const next = randomSerialNumbers()
    const serials = await Promise.all(Array.from({ length: 20_000 }, () => next()))
    serials.forEach(requireForm)
    assert.ok(serials.every(({ length }) => length === 17))
    assert.equal(setOf(serials).size, serials.length)
  })
})

describe('serial numbers from the database', () => {
  /** Of one database for several threads. */
  function aSequence() {
    let asked = 0
    return {
      async next() {
        await new Promise((resolve) => setImmediate(resolve))
        return BigInt(++asked)
      },
      asked: () => asked,
    }
  }

  test('end in a number that no other has, also among threads that take ranges at the same time', async () => {
    const sequence = aSequence()
    const threads = [1, 2, 3].map(() => databaseSerialNumbers(sequence.next))
    const serials = await Promise.all(threads.flatMap((next) => Array.from({ length: 3_000 }, () => next())))
    serials.forEach(requireForm)
    assert.equal(new Set(serials.map((serial) => serial.readBigInt64BE(serial.length - 8))).size, serials.length)
  })

  test('ask for a range once, however many wait for it', async () => {
    const sequence = aSequence()
    const next = databaseSerialNumbers(sequence.next)
    await Promise.all(Array.from({ length: 1_024 }, () => next()))
    assert.equal(sequence.asked(), 1)
    await next()
    assert.equal(sequence.asked(), 2)
  })

  test('have 64 random bits or more in front of the number (Baseline Requirements 7.1)', async () => {
    const next = databaseSerialNumbers(aSequence().next)
    const serials = await Promise.all(Array.from({ length: 1_000 }, () => next()))
    const [first] = serials as [Buffer]
    let drawn = 0
    for (let bit = 0; bit < 8 * (first.length - 8); bit++) {
      const at = (serial: Buffer) => ((serial[bit >> 3] as number) >> (bit & 7)) & 1
      if (serials.some((serial) => at(serial) !== at(first))) drawn += 1
    }
    assert.ok(drawn >= 64, `${drawn} bits differ`)
    assert.equal(new Set(serials.map((serial) => serial.readBigInt64BE(0))).size, serials.length)
  })

  test('go on after a range could not be had', async () => {
    const sequence = aSequence()
    let away = true
    const next = databaseSerialNumbers(() => (away ? Promise.reject(new Error('away')) : sequence.next()))
    const refused = await Promise.allSettled([next(), next()])
    assert.ok(refused.every(({ status }) => status === 'rejected'))
    away = false
    requireForm(await next())
  })
})
