/** Events: written with the change, delivered at least once, in order, by any instance. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod/v4'
import type { EventOf } from '../../src/domain/event.ts'
import { STATISTICS } from '../../src/events/audit-consumers.ts'
import type { ExternalConsumer } from '../../src/events/consumer.ts'
import { EventDelivery, ExternalDelivery, takeBatch } from '../../src/events/delivery.ts'
import {
  buryDelivery,
  claimDeliveries,
  type Delivery,
  registerConsumer,
  removeDeliveries,
  removeUnseenConsumers,
} from '../../src/events/event-store.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type DatabasePool, rowsOf } from '../../src/store/slonik.ts'
import { each } from '../support/each.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { type EventFixture, eventFixture, eventsFor, silent } from './support.ts'

const None = z.object({})
const Count = z.object({ rows: z.int() })
describe('events', () => {
  let fixture: EventFixture
  let db: DatabasePool
  before(async () => {
    fixture = await eventFixture()
    db = fixture.db
  })
  after(() => fixture.close())

  const run = (query: ReturnType<ReturnType<typeof rowsOf>>) => db.query(query)
  const waiting = async (consumer: string) =>
    (await db.one(rowsOf(Count)`SELECT count(*)::integer AS rows FROM event_deliveries WHERE consumer = ${consumer}`))
      .rows
  const emit = (kind: string, subject: string, data = '{}', account: string | null = null) =>
    run(rowsOf(None)`SELECT emit_event(${kind}, ${subject}, ${account}, ${data}::jsonb)`)
  async function anAccount(): Promise<string> {
    const id = uuidv7(Date.now())
    await run(rowsOf(None)`INSERT INTO accounts (id, thumbprint, jwk) VALUES (${id}, ${id}, '{}')`)
    return id
  }
  const aCertificate = (account: string, id = uuidv7(Date.now())) =>
    run(rowsOf(None)`
      INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
      VALUES (${id}, ${account}, ${id}, uuid_send(${id}), 'x', '{a.test}', now(), now() + interval '1 day', 'x')`)
  function consumer(over: Partial<ExternalConsumer> & { name: string }): ExternalConsumer {
    return {
      kinds: ['alarm'],
      concurrency: 4,
      timeoutMs: 60_000,
      retryDelayMs: () => 0,
      deliver: async () => undefined,
      ...over,
    }
  }
  const delivery = (of: ExternalConsumer, instanceId = fixture.instanceId) =>
    new ExternalDelivery({ db, instanceId, consumer: of, events: silent })

  const rounds = (of: ExternalDelivery, what: string, isDone: () => Promise<boolean>) =>
    until(what, async () => {
      await of.round()
      return isDone()
    })

  test('nothing is written that nobody has asked for', async () => {
    await anAccount()
    const { rows } = await db.one(rowsOf(Count)`SELECT count(*)::integer AS rows FROM event_deliveries`)
    assert.equal(rows, 0)
  })

  test('a change and its event are one transaction', async () => {
    await registerConsumer(db, 'accounts', ['account.registration', 'account.deactivation', 'account.key_change'])
    const id = await anAccount()
    await run(rowsOf(None)`UPDATE accounts SET thumbprint = ${`${id} new`} WHERE id = ${id}`)
    await run(rowsOf(None)`UPDATE accounts SET status = 'deactivated' WHERE id = ${id}`)
    await db
      .transaction(async (tx) => {
        await tx.query(
          rowsOf(None)`INSERT INTO accounts (id, thumbprint, jwk) VALUES (${uuidv7(Date.now())}, 'x', '{}')`,
        )
        throw new Error('taken back')
      })
      .catch(() => undefined)
    const rows = await eventsFor(db, 'accounts')
    assert.deepEqual(each(rows, 'kind'), ['account.registration', 'account.key_change', 'account.deactivation'])
    assert.deepEqual(rows[1]?.data, { account_id: id, old_thumbprint: id, new_thumbprint: `${id} new` })
  })

  test('a kind that is wanted about holders with a contact is not written about others', async () => {
    await registerConsumer(
      db,
      'holders',
      ['account.registration', 'certificate.issuance'],
      ['account.registration', 'certificate.issuance'],
    )
    await registerConsumer(db, 'everybody', ['certificate.issuance'])
    const without = await anAccount()
    const reachable = uuidv7(Date.now())
    await run(rowsOf(None)`
      INSERT INTO accounts (id, thumbprint, jwk, contacts) VALUES (${reachable}, ${reachable}, '{}', '{mailto:ops@example.com}')`)
    for (const account of [without, reachable]) await aCertificate(account)
    const Told = z.object({ consumer: z.string(), kind: z.string(), account_id: z.string() })
    const told = await db.any(rowsOf(Told)`
      SELECT consumer, kind, account_id FROM event_deliveries WHERE consumer = ANY ('{holders,everybody}') ORDER BY sequence`)
    assert.deepEqual(
      told
        .map((row) => `${row.consumer} ${row.kind} ${row.account_id === reachable ? 'reachable' : 'other'}`)
        .toSorted(),
      [
        'everybody certificate.issuance other',
        'everybody certificate.issuance reachable',
        'holders account.registration reachable',
        'holders certificate.issuance reachable',
      ],
    )
    await run(rowsOf(None)`DELETE FROM event_consumers WHERE name = ANY ('{holders,everybody}')`)
    await removeUnseenConsumers(db, 7)
    assert.deepEqual([await waiting('holders'), await waiting('everybody')], [0, 0])
  })

  test('a deactivated authorization names the open orders that it ended', async () => {
    await registerConsumer(db, 'authorizations', ['authorization.deactivation'])
    const account = await anAccount()
    const [authorization, other] = [uuidv7(Date.now()), uuidv7(Date.now())]
    for (const id of [authorization, other])
      await run(rowsOf(None)`
        INSERT INTO authorizations (id, account_id, identifier_type, identifier_value, wildcard, status, offered, token, expires_at)
        VALUES (${id}, ${account}, 'dns', 'a.test', false, 'valid', '{}', 'x', now() + interval '1 day')`)
    const order = uuidv7(Date.now())
    for (const [id, of, status] of [
      [order, authorization, 'open'],
      [uuidv7(Date.now()), other, 'open'],
      [uuidv7(Date.now()), authorization, 'valid'],
    ] as const)
      await run(rowsOf(None)`
        INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at)
        VALUES (${id}, ${account}, ${status}, '[]', ARRAY[${of}]::uuid[], 'default', now() + interval '1 day')`)
    await run(rowsOf(None)`UPDATE authorizations SET status = 'deactivated' WHERE id = ${authorization}`)
    const [event] = await eventsFor(db, 'authorizations')
    assert.deepEqual(event?.data, {
      authorization_id: authorization,
      account_id: account,
      identifier_type: 'dns',
      identifier_value: 'a.test',
      invalidated_orders: [order],
    })
    await run(rowsOf(None)`DELETE FROM event_consumers WHERE name = 'authorizations'`)
  })

  test('all consumers get an event under the same id', async () => {
    for (const name of ['one', 'two', 'three']) await registerConsumer(db, name, ['account.registration'])
    for (let n = 0; n < 3; n++) await anAccount()
    const Ids = z.object({ ids: z.int(), rows: z.int() })
    const counted = await db.one(rowsOf(Ids)`
      SELECT count(DISTINCT event_id)::integer AS ids, count(*)::integer AS rows FROM event_deliveries
       WHERE consumer = ANY ('{one,two,three}')`)
    assert.deepEqual(counted, { ids: 3, rows: 9 })
    await run(rowsOf(None)`DELETE FROM event_consumers WHERE name = ANY ('{one,two,three}')`)
  })

  test('an event whose transaction commits late is not passed over', async () => {
    await registerConsumer(db, 'late', ['alarm'])
    const seen: string[] = []
    const late = delivery(consumer({ name: 'late', deliver: async ([{ subject }]) => void seen.push(subject) }))
    const hold = gate()
    const written = gate()
    const holding = db.transaction(async (tx) => {
      await tx.query(rowsOf(None)`SELECT emit_event('alarm', 'first', NULL, '{}'::jsonb)`)
      written.open()
      await hold.opened
    })
    await written.opened
    await emit('alarm', 'second')
    await rounds(late, 'the later one is delivered', async () => seen.includes('second'))
    assert.deepEqual(seen, ['second'])
    hold.open()
    await holding
    await rounds(late, 'the earlier one, too', async () => seen.includes('first'))
    await late.stop(1_000)
    assert.equal(await waiting('late'), 0)
  })

  test('events of one subject come in their order, others beside them', async () => {
    await registerConsumer(db, 'order', ['alarm'])
    for (const n of [1, 2, 3]) await emit('alarm', 'a', `{"message":"${n}"}`)
    await emit('alarm', 'b', '{"message":"9"}')
    const seen: unknown[] = []
    let failures = 0
    const ordered = delivery(
      consumer({
        name: 'order',
        async deliver([event]) {
          const { message } = (event as EventOf<'alarm'>).data
          if (message === '1' && failures++ < 2) throw new Error('not yet')
          seen.push(message)
        },
      }),
    )
    await rounds(ordered, 'all four', async () => seen.length === 4)
    await ordered.stop(1_000)
    assert.deepEqual(
      seen.filter((message) => message !== '9'),
      ['1', '2', '3'],
    )
    assert.equal(failures, 3)
  })

  test('a delivery of an instance that is gone is taken over, with the same event id', async () => {
    await registerConsumer(db, 'takeover', ['alarm'])
    await emit('alarm', 'x')
    const ids: string[] = []
    const hanging = consumer({ name: 'takeover', deliver: ([{ id }]) => new Promise(() => void ids.push(id)) })
    const first = delivery(hanging, 111)
    await rounds(first, 'the first has begun', async () => ids.length > 0)
    // Nobody holds the presence lock of the first, so it counts as gone.
    const taken: string[] = []
    const second = delivery(consumer({ name: 'takeover', deliver: async ([{ id }]) => void taken.push(id) }))
    await rounds(second, 'the second has it', async () => taken.length === 1)
    await second.stop(1_000)
    await first.stop(10)
    assert.equal(ids[0], taken[0])
    assert.equal(await waiting('takeover'), 0)
  })

  test('an event of a database whose clock was an hour ahead is delivered at once', async () => {
    await registerConsumer(db, 'ahead', ['alarm'])
    await emit('alarm', 'ahead')
    await run(rowsOf(None)`UPDATE event_deliveries SET due_at = now() + interval '1 hour' WHERE consumer = 'ahead'`)
    const of = delivery(consumer({ name: 'ahead' }))
    await rounds(of, 'it is delivered', async () => (await waiting('ahead')) === 0)
    await of.stop(1_000)
  })

  test('what fails for good is a dead letter with its whole payload', async () => {
    await registerConsumer(db, 'dead', ['alarm'])
    await emit('alarm', 'x', '{"reason":"why"}')
    const dying = delivery(
      consumer({
        name: 'dead',
        retryDelayMs: (failures) => (failures < 3 ? 0 : undefined),
        deliver: () => Promise.reject(new Error('no')),
      }),
    )
    await rounds(dying, 'it is gone', async () => (await waiting('dead')) === 0)
    await dying.stop(1_000)
    const Letter = z.object({ data: z.record(z.string(), z.unknown()), attempts: z.int(), error: z.string() })
    const letter = await db.one(
      rowsOf(Letter)`SELECT data, attempts, error FROM event_dead_letters WHERE consumer = 'dead'`,
    )
    assert.deepEqual(letter, { data: { reason: 'why' }, attempts: 3, error: 'no' })
  })

  test('a consumer that ignores its time limit loses its place, not the event', async () => {
    await registerConsumer(db, 'slow', ['alarm'])
    await emit('alarm', 'x')
    let attempts = 0
    const slow = delivery(
      consumer({
        name: 'slow',
        concurrency: 1,
        timeoutMs: 20,
        deliver: () => (++attempts === 1 ? new Promise(() => {}) : Promise.resolve()),
      }),
    )
    await rounds(slow, 'the second attempt', async () => (await waiting('slow')) === 0)
    await slow.stop(1_000)
    assert.equal(attempts, 2)
  })

  test('deliveries that end together are removed together', async () => {
    await registerConsumer(db, 'many', ['alarm'])
    for (let n = 0; n < 40; n++) await emit('alarm', `${n}`)
    const all = gate()
    let begun = 0
    const removals: unknown[] = []
    const counted = new Proxy(db, {
      get(target, name) {
        const method = Reflect.get(target, name)
        if (name !== 'query') return typeof method === 'function' ? method.bind(target) : method
        return (query: { sql: string }) => {
          if (/DELETE FROM event_deliveries/.test(query.sql)) removals.push(query)
          return method.call(target, query)
        }
      },
    })
    const many = new ExternalDelivery({
      db: counted,
      instanceId: fixture.instanceId,
      events: silent,
      consumer: consumer({
        name: 'many',
        concurrency: 40,
        async deliver() {
          if (++begun === 40) all.open()
          await all.opened
        },
      }),
    })
    await rounds(many, 'all are gone', async () => (await waiting('many')) === 0)
    await many.stop(1_000)
    assert.equal(begun, 40)
    assert.ok(removals.length < 10, `${removals.length} statements`)
  })

  test('what was delivered when the database went away is removed later, and not delivered again', async () => {
    await registerConsumer(db, 'away', ['alarm'])
    await emit('alarm', 'x')
    let isAway = true
    const flaky = new Proxy(db, {
      get(target, name) {
        const method = Reflect.get(target, name)
        if (name !== 'query') return typeof method === 'function' ? method.bind(target) : method
        return (query: { sql: string }) =>
          isAway && query.sql.includes('DELETE')
            ? Promise.reject(new Error('the connection is gone'))
            : method.call(target, query)
      },
    })
    const seen: string[] = []
    const of = consumer({
      name: 'away',
      retryDelayMs: () => undefined,
      deliver: async ([{ id }]) => void seen.push(id),
    })
    const failures: unknown[] = []
    const delivering = new ExternalDelivery({
      db: flaky,
      instanceId: fixture.instanceId,
      consumer: of,
      events: { ...silent, failed: (_name, error) => void failures.push(error) },
    })
    await delivering.round()
    await until('its removal has failed', async () => failures.length > 0)
    isAway = false
    await rounds(delivering, 'it is removed', async () => (await waiting('away')) === 0)
    await delivering.stop(1_000)
    assert.equal(seen.length, 1)
    const letters = await db.one(
      rowsOf(Count)`SELECT count(*)::integer AS rows FROM event_dead_letters WHERE consumer = 'away'`,
    )
    assert.equal(letters.rows, 0)
  })

  test('a thread that is replaced delivers what the former one had claimed', async () => {
    await registerConsumer(db, 'replaced', ['alarm'])
    await emit('alarm', 'x')
    const { instanceId } = fixture
    await run(rowsOf(None)`UPDATE event_deliveries SET claimed_by = ${instanceId} WHERE consumer = 'replaced'`)
    const seen: string[] = []
    const thread = new EventDelivery({
      db,
      instanceId,
      database: [],
      events: { ...silent, abandoned: () => undefined },
      external: [consumer({ name: 'replaced', deliver: async ([{ subject }]) => void seen.push(subject) })],
    })
    await thread.start()
    await until('it is delivered', async () => (await waiting('replaced')) === 0)
    await thread.stop(1_000)
    assert.deepEqual(seen, ['x'])
  })

  test('a claim that came back with an earlier state of the database is delivered', async () => {
    await registerConsumer(db, 'earlier', ['alarm'])
    const seen: string[] = []
    const of = delivery(consumer({ name: 'earlier', deliver: async ([{ subject }]) => void seen.push(subject) }))
    await emit('alarm', 'x')
    await rounds(of, 'x is delivered', async () => (await waiting('earlier')) === 0)
    // As a promoted standby has it that knew of the claim and not of its end; no statement has failed.
    await emit('alarm', 'y')
    await run(rowsOf(None)`UPDATE event_deliveries SET claimed_by = ${fixture.instanceId} WHERE consumer = 'earlier'`)
    await rounds(of, 'y is delivered', async () => (await waiting('earlier')) === 0)
    await of.stop(1_000)
    assert.deepEqual(seen, ['x', 'y'])
  })

  test('an event that has the number of a lost one does not end with it', async () => {
    await registerConsumer(db, 'reused', ['alarm'])
    await emit('alarm', 'x')
    const { instanceId } = fixture
    const claim = async (running: readonly Delivery[]) => {
      const [claimed] = await claimDeliveries(db, 'reused', instanceId, { limit: 1, running })
      return claimed ?? assert.fail('nothing was claimed')
    }
    const lost = await claim([])
    const id = uuidv7(Date.now())
    await run(rowsOf(None)`UPDATE event_deliveries SET event_id = ${id} WHERE consumer = 'reused'`)
    const next = await claim([lost])
    assert.deepEqual([next.sequence, next.event.id], [lost.sequence, id])
    await removeDeliveries(db, 'reused', instanceId, [lost])
    await buryDelivery(db, 'reused', lost, 'refused')
    assert.equal(await waiting('reused'), 1)
    await removeDeliveries(db, 'reused', instanceId, [next])
    assert.equal(await waiting('reused'), 0)
  })

  test('statistics count by hour and keep the last 50 failures of an account', async () => {
    await registerConsumer(db, STATISTICS.name, STATISTICS.kinds)
    const account = await anAccount()
    for (let n = 0; n < 55; n++) await emit('order.rejected', `r${n}`, `{"n":${n}}`, account)
    while ((await takeBatch(db, STATISTICS, silent)) > 0);
    const failures = await db.one(
      rowsOf(Count)`SELECT count(*)::integer AS rows FROM account_failures WHERE account_id = ${account}`,
    )
    assert.equal(failures.rows, 50)
    const counted = await db.one(rowsOf(Count)`
      SELECT sum(events)::integer AS rows FROM event_counts WHERE kind = 'order.rejected'`)
    assert.equal(counted.rows, 55)
    assert.equal(await waiting(STATISTICS.name), 0)
  })

  test('a consumer without an instance leaves after its days, with what waited for it', async () => {
    await registerConsumer(db, 'gone', ['alarm'])
    await emit('alarm', 'x')
    await run(rowsOf(None)`UPDATE event_consumers SET seen_at = now() - interval '8 days' WHERE name = 'gone'`)
    assert.deepEqual(await removeUnseenConsumers(db, 7), ['gone'])
    assert.equal(await waiting('gone'), 0)
  })
})
