import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { allocateInstanceBoard, openInstanceBoard } from '../../../src/services/instance-board.ts'

describe('instance board', () => {
  test('the pools of the fronts are one pool', () => {
    const memory = allocateInstanceBoard(2)
    openInstanceBoard(memory).reportPool(0, { max: 4, size: 4, available: 1, waiting: 2 })
    openInstanceBoard(memory).reportPool(1, { max: 4, size: 3, available: 3, waiting: 0 })
    assert.deepEqual(openInstanceBoard(memory).pool(), { max: 8, size: 7, available: 4, waiting: 2 })
  })

  test('an exhausted pool lets one request of all threads through every two seconds', (context) => {
    context.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 })
    const memory = allocateInstanceBoard(1)
    const [one, two] = [openInstanceBoard(memory), openInstanceBoard(memory)]
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
    const memory = allocateInstanceBoard(1)
    openInstanceBoard(memory).setSwitch('maintenance', true)
    assert.equal(openInstanceBoard(memory).isOn('maintenance'), true)
    openInstanceBoard(memory).setSwitch('maintenance', false)
    assert.equal(openInstanceBoard(memory).isOn('maintenance'), false)
  })
})
