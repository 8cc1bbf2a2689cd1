/** The fair queue: turns among owners and targets, bounds, and what is left behind. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { FairQueue } from '../../../../src/shared/lib/fair-queue.ts'
import { forAll } from '../../../support/property-runs.ts'

interface Item {
  owner: string
  target: string
  number: number
}

const aQueue = (perOwner = 100, perTarget = 100) =>
  new FairQueue<Item>({ ownerOf: ({ owner }) => owner, targetOf: ({ target }) => target, perOwner, perTarget })

let count = 0
const anItem = (owner: string, target = `${owner}.example`): Item => ({ owner, target, number: ++count })

describe('fair queue', () => {
  test('who has ten thousand waiting delays another owner’s first by one turn', () => {
    const queue = aQueue()
    for (let i = 0; i < 10_000; i++) queue.push(anItem('greedy', `host${i}`))
    queue.push(anItem('modest'))
    const found = [queue.take(), queue.take(), queue.take()].map((item) => item?.owner)
    assert.deepEqual(found, ['greedy', 'modest', 'greedy'])
  })

  test('targets of one owner take turns', () => {
    const queue = aQueue()
    for (const target of ['x', 'x', 'x', 'y']) queue.push(anItem('a', target))
    assert.deepEqual(
      [1, 2, 3, 4].map(() => queue.take()?.target),
      ['x', 'y', 'x', 'x'],
    )
  })

  test('an owner has no more out than its bound, and goes on when one is given back', () => {
    const queue = aQueue(2)
    for (let i = 0; i < 4; i++) queue.push(anItem('a', `host${i}`))
    const first = queue.take() as Item
    queue.take()
    assert.equal(queue.take(), undefined)
    assert.deepEqual(queue.waitingFor(), { turn: 0, owner: 2, target: 0 })
    queue.giveBack(first)
    assert.equal(queue.take()?.target, 'host2')
    assert.equal(queue.take(), undefined)
  })

  test('a target has no more out than its bound, whoever asks, and its owners go on with others', () => {
    const queue = aQueue(100, 1)
    for (const owner of ['a', 'b']) for (const target of ['slow', `${owner}-own`]) queue.push(anItem(owner, target))
    const taken = [queue.take(), queue.take(), queue.take()] as Item[]
    assert.deepEqual(taken.map(({ target }) => target).sort(), ['a-own', 'b-own', 'slow'])
    assert.equal(queue.take(), undefined)
    assert.deepEqual(queue.waitingFor(), { turn: 0, owner: 0, target: 1 })
    queue.giveBack(taken.find(({ target }) => target === 'slow') as Item)
    assert.equal(queue.take()?.target, 'slow')
  })

  test('what is given back without having been taken is a fault', () =>
    assert.throws(() => aQueue().giveBack(anItem('a'))))

  test('any course: nothing is lost or taken twice, no bound is passed, and nothing waits that could go', () => {
    const action = fc.oneof(
      fc.record({ push: fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 4 })) }),
      fc.constant('take' as const),
      fc.record({ giveBack: fc.nat() }),
    )
    forAll(
      fc.array(action, { maxLength: 120 }),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 3 }),
      (actions, perOwner, perTarget) => {
        const queue = aQueue(perOwner, perTarget)
        const waiting = new Set<Item>()
        const out: Item[] = []
        const outOf = (owner: string) => out.filter((item) => item.owner === owner).length
        const outAt = (target: string) => out.filter((item) => item.target === target).length
        for (const step of actions) {
          if (step === 'take') {
            const item = queue.take()
            if (item) {
              assert.ok(waiting.delete(item))
              out.push(item)
            } else
              for (const { owner, target } of waiting)
                assert.ok(outOf(owner) >= perOwner || outAt(target) >= perTarget, 'one could have been taken')
          } else if ('push' in step) {
            const item = anItem(`o${step.push[0]}`, `t${step.push[1]}`)
            waiting.add(item)
            queue.push(item)
          } else if (out.length > 0) queue.giveBack(out.splice(step.giveBack % out.length, 1)[0] as Item)
          for (const { owner, target } of out) assert.ok(outOf(owner) <= perOwner && outAt(target) <= perTarget)
          assert.deepEqual([queue.waiting, queue.out], [waiting.size, out.length])
          const { turn, owner, target } = queue.waitingFor()
          assert.equal(turn + owner + target, waiting.size)
        }
        // Everything comes out in the end, and first in its lane means longest there.
        while (waiting.size > 0) {
          const item = queue.take()
          if (item) {
            const before = [...waiting].filter((other) => other.owner === item.owner && other.target === item.target)
            assert.equal(before[0], item)
            waiting.delete(item)
            out.push(item)
          } else queue.giveBack(out.pop() as Item)
        }
        assert.deepEqual([...queue.heads()], [])
      },
    )
  })
})
