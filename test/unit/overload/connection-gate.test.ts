/** Which connections are taken when there are many, or when the thread is overloaded. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConnectionGate } from '../../../src/overload/overload-control.ts'

function gate(state: { busy?: boolean; overloaded?: boolean; unwelcome?: string } = {}) {
  let now = 1
  const accept = createConnectionGate({
    maxConnections: 1000,
    isTrustedProxy: (address) => address === '10.0.0.1',
    isBusy: () => state.busy ?? false,
    isOverloaded: () => state.overloaded ?? false,
    isUnwelcome: (address) => address === state.unwelcome,
    clock: () => now,
  })
  const acceptMany = (address: string, count: number, open: number) => {
    let accepted = 0
    for (let i = 0; i < count; i++) if (accept(address, open)) accepted++
    now += 60
    return accepted
  }
  return { accept, acceptMany }
}

describe('the connection gate', () => {
  test('takes everybody while there is room, and nobody beyond the bound', () => {
    const { acceptMany, accept } = gate()
    assert.equal(acceptMany('192.0.2.1', 500, 400), 500)
    assert.equal(accept('192.0.2.2', 1000), true)
    assert.equal(accept('192.0.2.2', 1001), false)
    assert.equal(accept('10.0.0.1', 1001), false)
  })

  for (const [when, open, overloaded] of [
    ['room grows short', 501, false],
    ['the thread is overloaded', 10, true],
  ] as const)
    test(`when ${when} it takes no more from the address that opens far more than others`, () => {
      const { acceptMany } = gate({ overloaded })
      acceptMany('192.0.2.1', 300, open)
      for (let i = 2; i < 12; i++) assert.equal(acceptMany(`192.0.2.${i}`, 20, open), 20)
      assert.equal(acceptMany('192.0.2.1', 10, open), 0)
      assert.equal(acceptMany('192.0.2.2', 10, open), 10)
    })

  test('one address alone may use all there is, and so may a trusted proxy', () => {
    const { acceptMany } = gate({ overloaded: true })
    assert.equal(acceptMany('192.0.2.1', 900, 900), 900)
    const other = gate({ overloaded: true })
    for (let i = 2; i < 12; i++) other.acceptMany(`192.0.2.${i}`, 5, 10)
    assert.equal(other.acceptMany('10.0.0.1', 900, 600), 900)
  })

  test('an address that is held back keeps a few while the thread is busy or overloaded', () => {
    const unwelcome = '192.0.2.1'
    assert.equal(gate({ busy: true, unwelcome }).acceptMany(unwelcome, 100, 10), 32)
    assert.equal(gate({ overloaded: true, unwelcome }).acceptMany(unwelcome, 100, 10), 32)
    assert.equal(gate({ unwelcome }).acceptMany(unwelcome, 100, 10), 100)
  })

  test('a thread that is only busy refuses nobody else, however many he opens', () => {
    const { acceptMany } = gate({ busy: true, unwelcome: '192.0.2.1' })
    for (let i = 2; i < 12; i++) acceptMany(`192.0.2.${i}`, 5, 10)
    assert.equal(acceptMany('192.0.2.12', 400, 10), 400)
  })
})
