/** Memory for bodies in pieces: bounds, shares, and that nothing is left behind. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { BodyMemory, type GatheredBody } from '../../../src/http/body-memory.ts'
import { forAll } from '../../support/property-runs.ts'

const KIB = 1024
const PROXY = '192.0.2.9'

function aMemory(maxBytes?: number): BodyMemory {
  return new BodyMemory({ maxBytes, isTrustedProxy: (address) => address === PROXY })
}

describe('memory for bodies', () => {
  test('a body that has begun holds nothing before its first piece', () => {
    const memory = aMemory(64 * KIB)
    memory.begin('192.0.2.1', 64 * KIB)
    assert.deepEqual([memory.bytes, memory.holders], [0, 0])
  })

  test('one /64 of IPv6 is one address, with one share', () => {
    const memory = aMemory(8 * KIB)
    assert.equal(memory.begin('2001:db8::1', KIB).add(Buffer.alloc(KIB)), true)
    assert.equal(memory.begin('2001:db8::2', KIB).add(Buffer.alloc(1)), false)
    assert.equal(memory.begin('2001:db8:0:1::2', KIB).add(Buffer.alloc(1)), true)
    assert.equal(memory.holders, 2)
  })

  test('a refused piece takes nothing, and the body gives back what it had', () => {
    const memory = aMemory(16 * KIB)
    const body = memory.begin('192.0.2.1', 4 * KIB)
    assert.equal(body.add(Buffer.alloc(2 * KIB)), true)
    assert.equal(body.add(Buffer.alloc(1)), false)
    assert.equal(memory.bytes, 2 * KIB)
    body.release()
    body.release()
    assert.deepEqual([memory.bytes, memory.holders], [0, 0])
  })

  test('without a bound any amount is taken', () => {
    const memory = aMemory()
    assert.equal(memory.begin('192.0.2.1', 1 << 24).add(Buffer.alloc(1 << 24)), true)
  })

  test('in any order of pieces and ends, no bound is passed, bodies are whole and nothing stays', () => {
    const step = fc.record({
      body: fc.nat(7),
      address: fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1', PROXY),
      piece: fc.uint8Array({ maxLength: 3000 }),
      ends: fc.boolean(),
    })
    forAll(fc.array(step, { maxLength: 60 }), (steps) => {
      const memory = aMemory(16 * KIB)
      const bodies = new Map<number, { gathered: GatheredBody; expected: Uint8Array[] }>()
      for (const { body, address, piece, ends } of steps) {
        const { gathered, expected } = bodies.get(body) ?? { gathered: memory.begin(address, 1 << 20), expected: [] }
        bodies.set(body, { gathered, expected })
        const isTaken = gathered.add(piece)
        assert.ok(memory.bytes <= 16 * KIB)
        if (isTaken) expected.push(piece)
        if (isTaken && !ends) continue
        if (isTaken) assert.ok(gathered.bytes.equals(Buffer.concat(expected)))
        gathered.release()
        bodies.delete(body)
      }
      for (const { gathered } of bodies.values()) gathered.release()
      assert.deepEqual([memory.bytes, memory.holders], [0, 0])
    })
  })
})
