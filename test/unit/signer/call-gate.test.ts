import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { CallGate } from '../../../signer/keys/pkcs11/token-session.ts'
import { gate } from '../../support/gate.ts'

describe('the gate of a PKCS #11 library', () => {
  function aCall() {
    const { opened: ended, open: end } = gate()
    return { task: () => ended, end }
  }

  test('lets a restart wait for what runs, and what comes then for the restart', async () => {
    const gate = new CallGate()
    const order: string[] = []
    const first = aCall()
    const running = gate.running(async () => {
      await first.task()
      order.push('first')
    })
    const restart = gate.alone(60_000, () => void order.push('restart'))
    const later = gate.running(async () => void order.push('later'))
    await turn()
    assert.deepEqual(order, [])
    first.end()
    await Promise.all([running, restart, later])
    assert.deepEqual(order, ['first', 'restart', 'later'])
    assert.equal(gate.generation, 1)
  })

  test('gives a restart up when a call does not end, and goes on', async () => {
    const gate = new CallGate()
    const stuck = aCall()
    const running = gate.running(stuck.task)
    assert.equal(await gate.alone(20, () => assert.fail('it ran beside a call')), false)
    assert.equal(await gate.running(async () => 'signed'), 'signed')
    assert.equal(gate.generation, 0)
    stuck.end()
    await running
    assert.equal(await gate.alone(20, () => {}), true)
  })

  test('opens again when a restart fails', async () => {
    const gate = new CallGate()
    await assert.rejects(
      gate.alone(20, () => {
        throw new Error('no start')
      }),
      /no start/,
    )
    assert.equal(await gate.running(async () => 'signed'), 'signed')
  })

  test('does one restart for two that ask', async () => {
    const gate = new CallGate()
    let restarts = 0
    const first = aCall()
    const running = gate.running(first.task)
    const both = [1, 2].map(() => gate.alone(60_000, () => void restarts++))
    first.end()
    await running
    assert.deepEqual(await Promise.all(both), [true, true])
    assert.equal(restarts, 1)
  })

  test('tells whoever asks during a restart what came of it', async () => {
    const gate = new CallGate()
    const stuck = aCall()
    const running = gate.running(stuck.task)
    const late = [1, 2].map(() => gate.alone(20, () => assert.fail('it ran beside a call')))
    assert.deepEqual(await Promise.all(late), [false, false])
    stuck.end()
    await running
    const fail = () => {
      throw new Error('no start')
    }
    const failed = [1, 2].map(() => gate.alone(20, fail))
    const call = gate.running(async () => 'signed')
    for (const one of await Promise.allSettled(failed)) assert.equal(one.status, 'rejected')
    assert.equal(await call, 'signed', 'what only waited for it goes on')
  })
})
