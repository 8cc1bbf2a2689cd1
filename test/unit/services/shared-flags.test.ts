import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { allocateSharedFlags, openSharedFlags } from '../../../src/services/shared-state.ts'

describe('shared flags', () => {
  test('the pools of the fronts are one pool', () => {
    const memory = allocateSharedFlags(2)
    openSharedFlags(memory).reportPool(0, { max: 4, size: 4, available: 1, waiting: 2 })
    openSharedFlags(memory).reportPool(1, { max: 4, size: 3, available: 3, waiting: 0 })
    assert.deepEqual(openSharedFlags(memory).pool(), { max: 8, size: 7, available: 4, waiting: 2 })
  })

  test('an exhausted pool lets one request of all threads through every two seconds', (context) => {
    context.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 })
    const memory = allocateSharedFlags(1)
    const [one, two] = [openSharedFlags(memory), openSharedFlags(memory)]
    one.reportPool(0, { max: 2, size: 2, available: 0, waiting: 1 })
    assert.equal(one.admission(), 'none')
    assert.equal(two.admission(), 'exhausted')
    context.mock.timers.tick(1_999)
    assert.equal(two.admission(), 'exhausted')
    context.mock.timers.tick(1)
    assert.equal(two.admission(), 'none')
    assert.equal(one.admission(), 'exhausted')
  })

  test('the maintenance flag is the same for all', () => {
    const memory = allocateSharedFlags(1)
    openSharedFlags(memory).setSwitch('maintenance', true)
    assert.equal(openSharedFlags(memory).isOn('maintenance'), true)
    openSharedFlags(memory).setSwitch('maintenance', false)
    assert.equal(openSharedFlags(memory).isOn('maintenance'), false)
  })
})
