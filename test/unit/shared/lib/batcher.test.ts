/** Group commit: order, bounds, and one poisonous command among others. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  Batcher,
  BatcherFull,
  type BatcherOptions,
  CommandDropped,
  type CommandTraits,
  type Flush,
} from '../../../../src/shared/lib/batcher.ts'
import { gate } from '../../../support/gate.ts'
import { forAllAsync, propertyRuns } from '../../../support/property-runs.ts'

const OPTIONS: BatcherOptions = {
  maxBatch: 4,
  maxConcurrent: 2,
  maxWaiting: 100,
  maxOfKey: 100,
  maxStandstillMs: 60_000,
  retryable: () => true,
}
function batchedBy<C, R>(flush: Flush<C, R>, options: BatcherOptions, traits: CommandTraits<C> = {}) {
  const batcher = new Batcher(flush, { ...options, ...traits })
  return (command: C) => batcher.run(command)
}
/** What a flush brings back are its commands; `batches` are those that came. */
function echoing<C = number>(options: Partial<BatcherOptions>, traits?: CommandTraits<C>, during: Wait<C> = () => {}) {
  const batches: (readonly C[])[] = []
  const flush = async (commands: readonly C[]) => {
    batches.push([...commands])
    await during(commands)
    return [...commands]
  }
  return { batches, batched: batchedBy<C, C>(flush, { ...OPTIONS, ...options }, traits) }
}
type Wait<C> = (commands: readonly C[]) => unknown
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('commands of one turn of the event loop travel together, and each gets its own result', async () => {
  const batches: number[][] = []
  const square = batchedBy<number, number>(async (commands) => {
    batches.push([...commands])
    return commands.map((n) => n * n)
  }, OPTIONS)
  assert.deepEqual(await Promise.all([1, 2, 3].map(square)), [1, 4, 9])
  assert.deepEqual(batches, [[1, 2, 3]])
})

test('neither a batch nor the number of flushes at once exceeds its bound', async () => {
  let running = 0
  let peak = 0
  let largest = 0
  const batched = batchedBy<number, number>(async (commands) => {
    peak = Math.max(peak, ++running)
    largest = Math.max(largest, commands.length)
    await turn()
    running--
    return [...commands]
  }, OPTIONS)
  const numbers = Array.from({ length: 50 }, (_, i) => i)
  assert.deepEqual(await Promise.all(numbers.map(batched)), numbers)
  assert.ok(peak <= 2 && largest <= 4, `${peak} flushes of up to ${largest}`)
})

test('a batch weighs no more than its bound, and one command that weighs more goes alone', async () => {
  const { batches, batched } = echoing({}, { weight: { of: (command) => command, most: 10 } })
  const weights = [6, 4, 1, 12, 5, 1, 1, 1, 1]
  assert.deepEqual(await Promise.all(weights.map(batched)), weights)
  assert.deepEqual(batches, [[6, 4], [1], [12], [5, 1, 1, 1], [1]])
})

test('an error that a second try cannot mend fails the batch at once', async () => {
  const { batches, batched } = echoing({ retryable: () => false }, undefined, () => {
    throw new Error('connection lost')
  })
  const results = await Promise.allSettled([1, 2, 3].map(batched))
  assert.ok(results.every(({ status }) => status === 'rejected'))
  assert.equal(batches.length, 1)
})

test('commands tried one by one fail together once the database is away', async () => {
  const { batches, batched } = echoing(
    { retryable: (error) => (error as Error).message !== 'connection lost' },
    undefined,
    (commands) => {
      if (commands.length > 1) throw new Error('a value was refused')
      if (commands[0] === 2) throw new Error('connection lost')
    },
  )
  const results = await Promise.allSettled([1, 2, 3, 4].map(batched))
  const found = results.map((result) =>
    result.status === 'fulfilled' ? result.value : (result.reason as Error).message,
  )
  assert.deepEqual(found, [1, 'connection lost', 'connection lost', 'connection lost'])
  assert.deepEqual(batches, [[1, 2, 3, 4], [1], [2]])
})

test('a flush that loses a result fails instead of answering the wrong caller', async () => {
  const batched = batchedBy<number, number>(async (commands) => commands.slice(1), {
    ...OPTIONS,
    retryable: () => false,
  })
  const results = await Promise.allSettled([1, 2].map(batched))
  assert.ok(results.every(({ status }) => status === 'rejected'))
})

test('what is over the bound of waiting commands is refused, and the rest is not', async () => {
  const { opened, open } = gate()
  const { batched } = echoing({ maxBatch: 1, maxConcurrent: 1, maxWaiting: 2 }, undefined, () => opened)
  const first = batched(0)
  await turn()
  const others = [1, 2, 3].map(batched)
  await assert.rejects(others[2] as Promise<number>, BatcherFull)
  open()
  assert.deepEqual(await Promise.all([first, others[0], others[1]]), [0, 1, 2])
})

test('whatever fails and however it is grouped, every caller gets its own answer', async () => {
  await forAllAsync(
    50,
    fc.array(fc.record({ bad: fc.boolean(), wait: fc.nat(2) }), { maxLength: 30 }),
    async (plan) => {
      const batched = batchedBy<number, number>(async (commands) => {
        await turn()
        if (commands.some((i) => plan[i]?.bad)) throw new Error('bad')
        return commands.map((i) => i * 2)
      }, OPTIONS)
      const answers = plan.map(async ({ wait }, i) => {
        for (let turns = 0; turns < wait; turns++) await turn()
        return batched(i)
      })
      const results = await Promise.allSettled(answers)
      for (const [i, result] of results.entries()) {
        assert.equal(result.status, plan[i]?.bad ? 'rejected' : 'fulfilled')
        if (result.status === 'fulfilled') assert.equal(result.value, i * 2)
      }
    },
  )
})

test('what waits is bounded in time as well: nothing joins a queue that does not move', async () => {
  const held: (() => void)[] = []
  const batched = batchedBy<number, number>(
    (commands) => new Promise((resolve) => held.push(() => resolve([...commands]))),
    { ...OPTIONS, maxConcurrent: 1, maxStandstillMs: 30 },
  )
  const release = async () => {
    while (held.length === 0) await turn()
    held.shift()?.()
  }
  const first = batched(1)
  await turn()
  const second = batched(2)
  await new Promise((resolve) => setTimeout(resolve, 50))
  await assert.rejects(batched(3), BatcherFull)
  await release()
  assert.equal(await first, 1)
  while (held.length === 0) await turn()
  // The second has begun, so the queue has moved.
  const fourth = batched(4)
  await release()
  assert.equal(await second, 2)
  await turn()
  await release()
  assert.equal(await fourth, 4)
})

test('commands after a long rest are not taken for a queue that does not move', async () => {
  const { batched } = echoing({ maxStandstillMs: 20 })
  assert.equal(await batched(0), 0)
  await new Promise((resolve) => setTimeout(resolve, 30))
  assert.deepEqual(await Promise.all([1, 2, 3].map(batched)), [1, 2, 3])
})

const keyOf = (command: string) => command.charAt(0)
/** Each letter is a key, and its place tells its commands apart. */
const keyed = (text: string) => [...text].map((key, n) => `${key}${n}`)

test('commands of one key run one after the other in their order, and those of other keys do not wait', async () => {
  const { batches, batched } = echoing({}, { keyOf }, turn)
  assert.deepEqual(await Promise.all(keyed('baacab').map(batched)), keyed('baacab'))
  assert.deepEqual(batches, [['a1', 'b0', 'c3'], ['a2', 'b5'], ['a4']])
})

test('a stuck key holds up only its own commands, and the queue does not count as stuck', async () => {
  const { opened, open } = gate()
  const { batched } = echoing({ maxStandstillMs: 20 }, { keyOf }, (commands) => commands.includes('a0') && opened)
  const [first, second] = keyed('aa').map(batched)
  await new Promise((resolve) => setTimeout(resolve, 40))
  assert.equal(await batched('b2'), 'b2')
  open()
  assert.deepEqual(await Promise.all([first, second]), ['a0', 'a1'])
  assert.equal(await batched('a3'), 'a3')
})

test('what lines up behind its key is bounded by itself, and takes up no room of others', async () => {
  const { batched } = echoing({ maxWaiting: 2, maxOfKey: 3 }, { keyOf }, turn)
  const twice = async () => {
    const results = await Promise.allSettled(keyed('aaaaabbbb').map(batched))
    assert.deepEqual(results.map(({ status }) => (status === 'fulfilled' ? '+' : '-')).join(''), '+++--+++-')
  }
  await twice()
  await twice()
})

test('a command that nobody waits for any more is dropped, and the commands behind it are done', async () => {
  const gone = new Set(['a1', 'a2', 'b4'])
  const { batches, batched } = echoing({}, { keyOf, isGone: (command) => gone.has(command) }, turn)
  const results = await Promise.allSettled(keyed('aaaabb').map(batched))
  const found = results.map((result) =>
    result.status === 'fulfilled' ? result.value : result.reason instanceof CommandDropped,
  )
  assert.deepEqual(found, ['a0', true, true, 'a3', true, 'b5'])
  assert.deepEqual(batches, [['a0', 'b5'], ['a3']])
  assert.equal(await batched('b9'), 'b9')
})

/** Rows that each command counts up, in flushes that do all of it or nothing, as a statement does. */
test('whatever repeats and whatever fails, what was done is told as done, once and in order', async () => {
  const command = fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    wait: fc.nat(3),
    poison: fc.constantFrom(false, false, false, true),
  })
  const failures = fc.array(fc.constantFrom(undefined, undefined, 'deadlock', 'lost'), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 40 }), failures, async (plan, injected) => {
      const rows = new Map<string, number[]>()
      const inFlight = new Set<string>()
      const batched = batchedBy<number, number>(
        async (commands) => {
          const keys = commands.map((i) => plan[i]?.key as string)
          for (const key of keys) {
            assert.ok(!inFlight.has(key), 'two commands of one key at once')
            inFlight.add(key)
          }
          assert.deepEqual(keys, keys.toSorted())
          await turn()
          for (const key of keys) inFlight.delete(key)
          const failure = injected.shift() ?? (commands.some((i) => plan[i]?.poison) ? 'poison' : undefined)
          if (failure) throw new Error(failure)
          return commands.map((i, at) => {
            const row = rows.get(keys[at] as string) ?? []
            rows.set(keys[at] as string, [...row, i])
            return row.length
          })
        },
        { ...OPTIONS, retryable: (error) => (error as Error).message !== 'lost' },
        { keyOf: (i) => plan[i]?.key as string },
      )
      const mayLose = injected.length > 0
      const came: number[] = []
      const results = await Promise.allSettled(
        plan.map(async ({ wait }, i) => {
          for (let turns = 0; turns < wait; turns++) await turn()
          came.push(i)
          return batched(i)
        }),
      )
      for (const [i, result] of results.entries()) {
        const row = rows.get(plan[i]?.key as string) ?? []
        assert.equal(result.status === 'fulfilled' ? result.value : -1, row.indexOf(i))
        if (!mayLose) assert.equal(result.status === 'rejected', plan[i]?.poison)
      }
      for (const [key, row] of rows)
        assert.deepEqual(
          row,
          came.filter((i) => plan[i]?.key === key && row.includes(i)),
        )
    }),
    propertyRuns(100),
  )
})
