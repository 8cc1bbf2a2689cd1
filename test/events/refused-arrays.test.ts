/** Arrays of events that a receiver refuses: one bad event harms no other. */

import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { webhookConsumer } from '../../src/events/audit-consumers.ts'
import type { ExternalConsumer } from '../../src/events/consumer.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { hookConsumers } from '../../src/events/hooks/hook-consumers.ts'
import { each } from '../support/each.ts'
import { gate } from '../support/gate.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'
import { type EventFixture, eventFixture } from './support.ts'

interface Told {
  data: { n: number }
}

describe('an array that is refused', () => {
  let fixture: EventFixture
  let server: Receiver
  /** Numbers of the events of each request, and the answer to it. */
  let requests: { numbers: number[]; status: number }[] = []
  let answer: (numbers: number[]) => number | Promise<number>
  before(async () => {
    fixture = await eventFixture()
    server = await startReceiver(async (body, response) => {
      const told = JSON.parse(body) as Told[]
      assert.ok(Array.isArray(told), 'an array, also of one')
      const numbers = told.map(({ data }) => data.n)
      const status = await answer(numbers)
      requests.push({ numbers, status })
      response.writeHead(status).end()
    })
  })
  afterEach(async () => {
    requests = []
    await fixture.run('DELETE FROM event_deliveries')
    await fixture.run('DELETE FROM event_consumers')
    await fixture.run('DELETE FROM event_dead_letters')
  })
  after(async () => {
    server.close()
    await fixture.close()
  })

  function hook(batch = 50): ExternalConsumer {
    const { consumers } = hookConsumers({
      hooks: [
        {
          name: 'hook webhook',
          kinds: ['alarm'],
          timeoutMs: 60_000,
          maxRetries: 3,
          url: server.url,
          secret: undefined,
          ca: undefined,
          allowPrivate: true,
          source: 'https://ca.test',
          isPlain: false,
          batch,
        },
      ],
      db: fixture.db,
      maxWorkers: 1,
      includeRoot: false,
      onOutput: () => undefined,
    })
    return consumers[0] ?? assert.fail()
  }
  async function emit({ name, kinds }: ExternalConsumer, subjects: readonly string[]): Promise<void> {
    await registerConsumer(fixture.db, name, kinds)
    for (const [n, subject] of subjects.entries())
      await fixture.run("SELECT emit_event('alarm', $1, NULL, $2::jsonb)", [subject, JSON.stringify({ n })])
  }
  const dead = async () =>
    (await fixture.run("SELECT data->>'n' AS n FROM event_dead_letters ORDER BY n")).map(({ n }) => Number(n))
  const taken = () => requests.filter(({ status }) => status === 204).flatMap(({ numbers }) => numbers)
  const subjects = (count: number) => Array.from({ length: count }, (_, n) => `s${n}`)
  /** 400 to each request with this event. */
  const refusing = (bad: number) => (numbers: number[]) => (numbers.includes(bad) ? 400 : 204)
  const delivered = async (consumer: ExternalConsumer) => {
    const running = await fixture.delivering(consumer)
    await until('nothing waits', async () => (await fixture.waiting(consumer)) === 0)
    await running.stop()
  }

  test('is sent event by event, and only what is refused alone becomes a dead letter', async () => {
    answer = refusing(7)
    const consumer = hook()
    await emit(consumer, subjects(20))
    await delivered(consumer)
    assert.deepEqual(await dead(), [7])
    assert.deepEqual(
      taken().toSorted((a, b) => a - b),
      subjects(20).flatMap((_, n) => (n === 7 ? [] : n)),
    )
    assert.equal(requests.length, 21)
  })

  test('leaves the events of a subject in their order', async () => {
    answer = refusing(0)
    const consumer = hook()
    await emit(consumer, ['a', 'b', 'a', 'b', 'a', 'c'])
    await delivered(consumer)
    assert.deepEqual(await dead(), [0])
    const order = (of: number[]) => taken().filter((n) => of.includes(n))
    assert.deepEqual([order([2, 4]), order([1, 3]), order([5])], [[2, 4], [1, 3], [5]])
  })

  test('with all that it holds is a dead letter for each, after one request more than there are events', async () => {
    answer = () => 403
    const consumer = hook()
    await emit(consumer, subjects(5))
    await delivered(consumer)
    assert.deepEqual(await dead(), [0, 1, 2, 3, 4])
    assert.deepEqual(
      requests.map(({ numbers }) => numbers.length),
      [5, 1, 1, 1, 1, 1],
    )
  })

  test('with 429 makes no dead letter', async () => {
    const answers = [429]
    answer = () => answers.shift() ?? 204
    const consumer = hook()
    await emit(consumer, subjects(5))
    await delivered(consumer)
    assert.deepEqual(await dead(), [])
    assert.deepEqual([requests[0]?.status, new Set(taken())], [429, new Set([0, 1, 2, 3, 4])])
  })

  test('when the service ends in the middle leaves its other events without a failed attempt', async () => {
    let hasBegun = false
    const { opened, open } = gate()
    answer = async (numbers) => {
      if (numbers.length > 1) return 400
      hasBegun = true
      await opened
      return 204
    }
    const consumer = hook()
    await emit(consumer, subjects(5))
    const running = await fixture.delivering(consumer)
    await until('the first is sent alone', () => hasBegun)
    const stopped = running.stop(60_000)
    open()
    await stopped
    const left = await fixture.run('SELECT attempts, claimed_by FROM event_deliveries ORDER BY sequence')
    assert.deepEqual(
      left,
      [1, 2, 3, 4].map(() => ({ attempts: 0, claimed_by: null })),
    )
  })

  test('by a receiver of audit records waits for that receiver alone, and holds up nothing else', async () => {
    answer = refusing(3)
    const consumer = webhookConsumer({ url: server.url, batch: 50, allowPrivate: true })
    await emit(consumer, subjects(10))
    const running = await fixture.delivering(consumer)
    await until('the others are taken', async () => (await fixture.waiting(consumer)) === 1, 60_000)
    const left = await until('the attempt is recorded', async () => {
      const rows = await fixture.run("SELECT data->>'n' AS n, attempts FROM event_deliveries")
      return Number(rows[0]?.attempts) > 0 && rows
    })
    assert.deepEqual(each(left, 'n'), ['3'])
    await running.stop()
    assert.deepEqual([await dead(), new Set(taken()).size], [[], 9])
  })
})
