/** The queue of validations: everything runs once, in fair turns and within its bounds. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { ValidationQueue, type ValidationQueueOptions } from '../../../src/services/validation-dispatcher.ts'
import { gate } from '../../support/gate.ts'
import { forAllAsync } from '../../support/property-runs.ts'
import { until } from '../../support/until.ts'

interface Item {
  key: string
  owner: string
  target: string
}

function aQueue(run: (item: Item) => Promise<void>, over: Partial<ValidationQueueOptions<Item>> = {}) {
  const started: Item[] = []
  let running = 0
  let most = 0
  const queue = new ValidationQueue<Item>({
    ownerOf: ({ owner }) => owner,
    targetOf: ({ target }) => target,
    perOwner: 4,
    perTarget: 100,
    concurrency: 8,
    async run(item) {
      started.push(item)
      most = Math.max(most, ++running)
      await run(item)
      running--
    },
    ...over,
  })
  return { queue, started, running: () => running, most: () => most }
}

let counter = 0
function anItem(over: Partial<Item> = {}): Item {
  const key = `item-${++counter}`
  return { key, owner: 'owner', target: key, ...over }
}

const keysOf = (items: readonly Item[]) => items.map(({ key }) => key).sort()

describe('validation queue', () => {
  test('nobody waits for an owner who is at its bound', async () => {
    const { opened, open } = gate()
    const { queue, started } = aQueue(({ owner }) => (owner === 'slow' ? opened : turn()))
    for (let i = 0; i < 20; i++) queue.push(anItem({ owner: 'slow' }))
    await sleep(20)
    queue.push(anItem({ owner: 'other' }))
    assert.equal(started.at(-1)?.owner, 'other')
    open()
    await until('all have run', () => started.length === 21)
  })

  test('a place is taken as soon as it is free, whether what had it has waited or not', async () => {
    const gates = Array.from({ length: 4 }, gate)
    const items = gates.map(() => anItem())
    const { queue, started } = aQueue((item) => gates[items.indexOf(item)]?.opened as Promise<void>, { concurrency: 2 })
    for (const item of items) queue.push(item)
    await sleep(10)
    assert.equal(started.length, 2)
    gates[0]?.open()
    await turn()
    assert.equal(started.length, 3)
    // The second has not waited, and the third has and still runs.
    gates[1]?.open()
    await turn()
    assert.equal(started.length, 4)
    for (const { open } of gates) open()
  })

  test('what fails within its own turn, and comes again under its key, runs again once', async () => {
    const again = new Map<string, number>()
    const { queue, started, running } = aQueue(
      async (item) => {
        const times = (again.get(item.key) ?? 0) + 1
        again.set(item.key, times)
        if (times < 5) setTimeout(pushAgain, 0, item)
      },
      { concurrency: 2 },
    )
    const pushAgain = (item: Item) => queue.push(item)
    const items = Array.from({ length: 100 }, () => anItem())
    for (const item of items) queue.push(item)
    await until('all have run', () => started.length === 500 && running() === 0)
    await sleep(20)
    assert.deepEqual([...again.values()], Array(100).fill(5))
  })

  test('after a stop nothing starts, neither of what waits nor of what comes', async () => {
    const { opened, open } = gate()
    const { queue, started } = aQueue(() => opened)
    for (let i = 0; i < 200; i++) queue.push(anItem({ owner: `${i % 10}` }))
    await turn()
    queue.stop()
    open()
    queue.push(anItem())
    await sleep(20)
    assert.equal(started.length, 8)
  })

  test('whatever comes and ends in whatever order, all runs once and within the bounds', async () => {
    const owners = fc.record({ owner: fc.constantFrom('a', 'b', 'c'), target: fc.constantFrom('x', 'y', 'z') })
    const step = fc.record({
      who: owners,
      pauseMs: fc.constantFrom(-1, -1, -1, 0, 1),
      runMs: fc.integer({ min: -1, max: 2 }),
    })
    const bounds = fc.record({
      concurrency: fc.integer({ min: 1, max: 4 }),
      perOwner: fc.integer({ min: 1, max: 3 }),
      perTarget: fc.integer({ min: 1, max: 3 }),
    })
    await forAllAsync(40, fc.array(step, { maxLength: 60 }), bounds, async (steps, limits) => {
      const out = new Map<string, number>()
      const times = new Map<string, number>()
      const count = (name: string, by: number) => out.set(name, (out.get(name) ?? 0) + by)
      const { queue, started, running, most } = aQueue(async ({ key, owner, target }) => {
        count(owner, 1)
        count(target, 1)
        assert.ok((out.get(owner) ?? 0) <= limits.perOwner && (out.get(target) ?? 0) <= limits.perTarget)
        const ms = times.get(key) ?? 0
        await (ms < 0 ? undefined : ms === 0 ? turn() : sleep(ms))
        count(owner, -1)
        count(target, -1)
      }, limits)
      const pushed: Item[] = []
      for (const { who, pauseMs, runMs } of steps) {
        const item = anItem(who)
        times.set(item.key, runMs)
        pushed.push(item)
        queue.push(item)
        if (pauseMs >= 0) await (pauseMs === 0 ? turn() : sleep(pauseMs))
      }
      await until('all have run', () => started.length >= pushed.length && running() === 0)
      assert.deepEqual(keysOf(started), keysOf(pushed))
      assert.ok(most() <= limits.concurrency)
    })
  })
})
