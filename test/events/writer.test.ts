/** Events without a change of their own: batched, bounded, and written only where somebody wants them. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod/v4'
import type { EventData, EventKind, NewEvent } from '../../src/domain/event.ts'
import { AbuseSummary } from '../../src/events/abuse-summary.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { EventWriter } from '../../src/events/event-writer.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type Database, openDatabase, type Statement } from '../../src/store/database.ts'
import { type DatabasePool, openCheckedDatabase, rowsOf } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { createAcmeClient, csrFor, registeredClient, startResponder } from '../support/acme-client.ts'
import { administered } from '../support/administered.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { eventsFor } from './support.ts'

type Written = { kind: string; data: Readonly<Record<string, unknown>> }
const written = async (pool: DatabasePool, consumer: string): Promise<readonly Written[]> => eventsFor(pool, consumer)
const alarm = (subject: string, message = 'why'): NewEvent => ({
  kind: 'alarm',
  subject,
  accountId: undefined,
  data: { message },
})

describe('the event writer', () => {
  let database: TestDatabase
  let db: Database
  let pool: DatabasePool
  before(async () => {
    database = await testDatabase()
    db = openDatabase(settingsFor(database.connection, 2), () => undefined)
    pool = await openCheckedDatabase(settingsFor(database.connection, 2))
  })
  after(async () => {
    await db.close()
    await pool.end()
    await database.drop()
  })

  const rows = (consumer: string) => written(pool, consumer)

  function writing(query: Database['query'] = db.query, maxWaiting = 100) {
    const seen = { dropped: 0, postponed: 0, statements: [] as string[] }
    const writer = new EventWriter({
      maxWaiting,
      db: {
        query<R>(statement: Statement, values: readonly unknown[]) {
          seen.statements.push(statement.name)
          return query<R>(statement, values)
        },
      },
      events: {
        dropped(count) {
          seen.dropped += count
        },
        postponed: () => void seen.postponed++,
      },
    })
    return { writer, seen }
  }

  test('writes nothing that nobody wants, and asks once a second who does', async () => {
    const { writer, seen } = writing()
    const startedAt = performance.now()
    for (let n = 0; n < 50; n++) writer.write(alarm(`${n}`))
    await until('it has asked', async () => seen.statements.length > 0)
    for (let n = 0; n < 50; n++) writer.write(alarm(`${n}`))
    await writer.close()
    const { statements, ...others } = seen
    assert.deepEqual(others, { dropped: 0, postponed: 0 })
    assert.deepEqual(new Set(statements), new Set(['events-wanted']))
    assert.ok((statements.length - 1) * 1_000 <= performance.now() - startedAt, 'an answer holds for a second')
  })

  test('writes a batch in one statement, in its order', async () => {
    await registerConsumer(pool, 'batch', ['alarm'])
    const { writer, seen } = writing()
    for (let n = 0; n < 100; n++) writer.write(alarm(`${n}`, `${n}`))
    await writer.close()
    assert.deepEqual(seen.statements, ['events-wanted', 'events-write'])
    const written = await rows('batch')
    assert.deepEqual(
      written.map(({ data }) => data.message),
      Array.from({ length: 100 }, (_, n) => `${n}`),
    )
  })

  test('keeps what it has while the database is away, and drops and counts what is too much', async () => {
    await registerConsumer(pool, 'away', ['alarm'])
    let isAway = true
    const { writer, seen } = writing(async (statement, values) => {
      if (isAway) throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
      return db.query(statement, values)
    }, 10)
    for (let n = 0; n < 15; n++) writer.write(alarm(`${n}`))
    await until('it has tried', async () => seen.postponed > 0)
    isAway = false
    await until('all are written', async () => (await rows('away')).length === 10)
    assert.equal(seen.dropped, 5)
    await writer.close()
  })

  test('writes what clients choose, whatever it is', async () => {
    await registerConsumer(pool, 'chosen', ['alarm'])
    const { writer, seen } = writing()
    writer.write(alarm('odd', 'a\u0000b\ud800c\\u0000'))
    await writer.close()
    assert.equal(seen.dropped, 0)
    assert.deepEqual((await rows('chosen'))[0]?.data, { message: 'a\ufffdb\ufffdc\\u0000' })
  })

  test('says which certificate a backend has not revoked', async () => {
    await registerConsumer(pool, 'backend', ['certificate.revocation_failed'])
    const id = uuidv7(Date.now())
    await pool.query(rowsOf(z.object({}))`
      INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
      VALUES (${id}, ${id}, ${id}, '\\x0a0b', 'x', '{a.test}', now(), now() + interval '1 day', 'x')`)
    const { writer } = writing()
    const data = { certificate_id: id, backend: 'external', reason: 'superseded', error: { detail: 'it answered 503' } }
    writer.write({ kind: 'certificate.revocation_failed', subject: id, accountId: undefined, data })
    await writer.close()
    assert.deepEqual((await rows('backend'))[0]?.data, {
      ...data,
      serial_number: '0a0b',
      domains: ['a.test'],
      account_id: id,
    })
  })

  test('what strangers cause is one event a kind and interval', async () => {
    const written: EventData[] = []
    const summary = new AbuseSummary({ write: ({ data }) => void written.push(data) }, 7, 3_600_000)
    for (let n = 0; n < 1000; n++) summary.add({ notFound: 1, unauthorized: 2 })
    summary.stop()
    assert.deepEqual(
      written.map((data) => 'refusal' in data && [data.refusal, data.count, data.instance]),
      [
        ['notFound', 1000, 7],
        ['unauthorized', 2000, 7],
      ],
    )
  })
})

const WITHOUT_CHANGE: readonly EventKind[] = [
  'challenge.before_validate',
  'challenge.after_validate',
  'challenge.on_failure',
  'challenge.on_retry',
  'certificate.delivery',
  'order.csr_refused',
  'order.rejected',
  'order.quota_exceeded',
  'abuse.summary',
  'account.registration_failed',
]

describe('a service', () => {
  const { service } = administered(() => sharedService('alarms'))
  let pool: DatabasePool
  before(async () => {
    pool = await openCheckedDatabase(settingsFor(service.database.connection, 2))
    await registerConsumer(pool, 'all', WITHOUT_CHANGE)
  })
  after(() => pool?.end())

  const writtenOf = async (wanted: EventKind) => (await written(pool, 'all')).filter(({ kind }) => kind === wanted)
  async function theOne(kind: EventKind) {
    await until(kind, async () => (await writtenOf(kind)).length > 0)
    return (await writtenOf(kind))[0] as Written
  }

  test('writes attempts, downloads and refusals with their contexts', async (context) => {
    const responder = await startResponder(service.http01Port)
    context.after(() => responder.close())
    const client = await registeredClient(service.directoryUrl)

    await client.obtain(['good.test'], responder)
    const before = await theOne('challenge.before_validate')
    assert.deepEqual(
      [before.data.challenge_type, before.data.identifier_type, before.data.identifier_value],
      ['http-01', 'dns', 'good.test'],
    )
    assert.equal((await theOne('challenge.after_validate')).data.result, 'success')
    const delivery = await theOne('certificate.delivery')
    assert.match(String(delivery.data.serial_number), /^[0-9a-f]+$/)
    assert.deepEqual(delivery.data.domains, ['good.test'])

    const refused = await client.newOrder(['refused.test'])
    assert.equal(refused.status, 400, refused.text)
    const rejected = await theOne('order.rejected')
    assert.deepEqual(rejected.data.rejected_identifiers, [{ type: 'dns', value: 'refused.test' }])

    const order = await client.newOrder(['csr.test'])
    await client.authorize(order, responder)
    const csr = await csrFor(['other.test'])
    assert.equal((await client.post(order.json.finalize, { csr })).status, 400)
    const csrRefused = await theOne('order.csr_refused')
    assert.deepEqual(csrRefused.data.identifiers, [{ type: 'dns', value: 'csr.test' }])

    assert.equal((await client.newOrder(['third.test'])).status, 201)
    assert.equal((await client.newOrder(['fourth.test'])).status, 429)
    const exceeded = await theOne('order.quota_exceeded')
    assert.equal(exceeded.data.limit, 3)
    assert.deepEqual(exceeded.data.attempted_identifiers, [{ type: 'dns', value: 'fourth.test' }])
  })

  test('tells of refused contacts once a minute and front thread', async () => {
    for (let n = 0; n < 6; n++) {
      const stranger = await createAcmeClient(service.directoryUrl)
      const answer = await stranger.newAccount({ termsOfServiceAgreed: true, contact: ['tel:+1'] })
      assert.equal(answer.status, 400, answer.text)
    }
    const { data } = await theOne('account.registration_failed')
    assert.deepEqual(data.contacts, ['tel:+1'])
    assert.match(JSON.stringify(data.error), /unsupportedContact/)
    assert.ok((await writtenOf('account.registration_failed')).length <= 2)
  })

  test('writes no event for one refusal of a stranger', async () => {
    assert.equal((await fetch(`${service.baseUrl}/nothing`)).status, 404)
    const summaries = await writtenOf('abuse.summary')
    assert.deepEqual(
      summaries.filter(({ data }) => data.refusal === 'notFound'),
      [],
    )
  })
})
