import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AcmeClient } from '../../../bench/client/acme.ts'
import { Failure } from '../../../bench/client/http.ts'
import type { Arrivals } from '../../../bench/generator/fleet.ts'
import { runOpenLoop } from '../../../bench/generator/loops.ts'
import { percentileMs, RunStats } from '../../../bench/measure/stats.ts'
import { undisturbed } from '../../support/until.ts'

/** The loop hands clients out and takes them back; what they are is the operation's concern. */
const clients = (count: number, isConnected = true) =>
  Array.from({ length: count }, () => ({ isConnected }) as AcmeClient)

async function run(count: number, arrivals: Arrivals, operate: () => Promise<void>, control = { stopped: false }) {
  const stats = new RunStats()
  stats.reset(100)
  await runOpenLoop(clients(count), arrivals, operate, stats, control)
  return stats
}

const at = (perSecond: number, forMs: number, more = {}) => ({
  steps: [{ perSecond, forMs, ...more }],
  patienceMs: 10_000,
})

describe('the open loop', () => {
  test('begins operations at the rate that was asked for, whatever they take', async () => {
    const stats = await run(200, at(500, 600), () => sleep(40))
    // 300 arrivals of a Poisson process: five standard deviations are 87.
    assert.ok(stats.counts.offered > 213 && stats.counts.offered < 387, `${stats.counts.offered} arrivals`)
    assert.equal(stats.operations.totalCount, stats.counts.offered)
    assert.equal(stats.counts.dropped, 0)
    assert.equal(stats.lag.totalCount, stats.counts.offered)
  })

  test('charges a server that stalls for everyone who came meanwhile', async () => {
    let first = true
    const stats = await run(1, at(400, 400), async () => {
      if (first) await sleep(300)
      first = false
    })
    // One operation took long; those that were due in its 300 ms waited for it, evenly between nothing and all of it.
    assert.ok(percentileMs(stats.operations, 50) > 50, `median ${percentileMs(stats.operations, 50)} ms`)
  })

  test('draws one of the open connections, and opens no other while one of them is free', () =>
    undisturbed(drawsAnOpenOne))

  async function drawsAnOpenOne(): Promise<void> {
    const open = clients(20)
    const used = new Map(open.map((client) => [client, 0]))
    let busy = 0
    const stats = new RunStats()
    stats.reset(100)
    const operate = async (client: AcmeClient) => {
      const uses = used.get(client)
      // A machine that stood still has more than twenty arrivals at once.
      if (uses === undefined) return assert.ok(busy >= open.length, `${busy} of the open ones are busy`)
      used.set(client, uses + 1)
      busy++
      // The loop has it back some microtasks after this operation has ended.
      setImmediate(() => busy--)
    }
    await runOpenLoop([...open, ...clients(200, false)], at(1_000, 600), operate, stats, { stopped: false })
    assert.deepEqual(stats.failures, [])
    // Thirty each; one in a million runs has one of them below five, or above a hundred.
    const counts = [...used.values()]
    assert.ok(Math.min(...counts) >= 5 && Math.max(...counts) <= 100, counts.join(' '))
  }

  test('opens connections a few at a time, and meanwhile whoever finds none waits', async () => {
    const stats = new RunStats()
    stats.reset(100)
    const all = clients(1000, false)
    const used = new Set<AcmeClient>()
    const beganAt = performance.now()
    const operate = async (client: AcmeClient) => {
      used.add(client)
      // Ten at once, and 150 a second.
      const most = 15 + 0.15 * (performance.now() - beganAt)
      assert.ok(used.size <= most, `${used.size} are open, of ${most}`)
      Object.assign(client, { isConnected: true })
      await sleep(2_000)
    }
    const arrivals = { steps: [{ perSecond: 2_000, forMs: 400, leaveAtEnd: true }], patienceMs: 10_000 }
    await runOpenLoop(all, arrivals, operate, stats, { stopped: false })
    assert.deepEqual(stats.failures, [])
    assert.ok(used.size >= 10, `${used.size} opened`)
    assert.equal(stats.counts.offered, used.size + stats.counts.dropped)
  })

  test('drops who finds no connection in time', async () => {
    const stats = await run(1, { ...at(200, 300), patienceMs: 50 }, () => sleep(100))
    assert.ok(stats.counts.dropped > 20, `${stats.counts.dropped} dropped`)
    assert.equal(stats.counts.offered, stats.operations.totalCount + stats.counts.dropped)
  })

  test('sends a crowd away with the step that brought it', () => undisturbed(sendsAway))

  async function sendsAway(): Promise<void> {
    const steps = [
      { perSecond: 500, forMs: 200, leaveAtEnd: true },
      { perSecond: 20, forMs: 300 },
    ]
    const stats = await run(2, { steps, patienceMs: 10_000 }, () => sleep(20))
    const dropsBySlot = stats.slots.map(({ dropped }) => dropped)
    assert.ok(stats.counts.dropped > 50)
    const atItsEnd = (dropsBySlot[1] ?? 0) + (dropsBySlot[2] ?? 0)
    assert.equal(atItsEnd, stats.counts.dropped, `all at the end of the step: ${dropsBySlot.join(' ')}`)
  }

  test('counts 503 with Retry-After as refused, and without as failed', async () => {
    let turn = 0
    const stats = await run(50, at(200, 200), async () => {
      throw new Failure('serverInternal', 'busy', turn++ % 2 === 0 ? 1 : undefined, 503)
    })
    assert.ok(stats.counts.refused > 0 && stats.counts.failed > 0)
    assert.equal(stats.counts.refused + stats.counts.failed, stats.counts.offered)
    assert.ok(Math.abs(stats.counts.refused - stats.counts.failed) <= 1)
  })

  test('ends early when it is told to', async () => {
    const control = { stopped: false }
    setTimeout(() => {
      control.stopped = true
    }, 50)
    const startedAt = performance.now()
    await run(5, at(100, 60_000), () => sleep(5), control)
    assert.ok(performance.now() - startedAt < 30_000)
  })
})
