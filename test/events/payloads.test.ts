/** Every kind of event, as its trigger, statement or writer writes it, has the payload that `EVENTS` describes. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { EVENT_KINDS, EVENTS, type EventKind, type NewEvent } from '../../src/domain/event.ts'
import { EVENT_SAMPLES, sampleEvent } from '../../src/domain/event-samples.ts'
import { readEvent } from '../../src/domain/stored-event.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { writeEvents } from '../../src/events/event-writer.ts'
import { recordTimestamp } from '../../src/events/transparency.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createExpirationStore } from '../../src/store/expiration-store.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { eventsFor } from './support.ts'

/** Written by a thread; test/events/writer.test.ts has a service write those that clients cause. */
const WITHOUT_CHANGE = [
  'account.registration_failed',
  'order.rejected',
  'order.csr_refused',
  'order.quota_exceeded',
  'order.recovered',
  'challenge.before_validate',
  'challenge.after_validate',
  'challenge.on_failure',
  'challenge.on_retry',
  'certificate.delivery',
  'certificate.revocation_failed',
  'abuse.summary',
  'alarm',
] as const satisfies readonly EventKind[]

describe('the payload of an event', () => {
  let database: TestDatabase
  let db: Database
  let pool: DatabasePool
  let client: pg.Client
  before(async () => {
    database = await testDatabase()
    db = openDatabase(settingsFor(database.connection, 2), () => undefined)
    pool = await openCheckedDatabase(settingsFor(database.connection, 2))
    client = new pg.Client({ ...database.connection })
    await client.connect()
    // Another zone than that of the service: times are stored with their offset.
    await client.query("SET timezone = 'Asia/Kolkata'")
    await registerConsumer(pool, 'all', EVENT_KINDS)
  })
  after(async () => {
    await client.end()
    await db.close()
    await pool.end()
    await database.drop()
  })

  const ids = {
    account: uuidv7(1),
    other: uuidv7(2),
    order: uuidv7(3),
    authorization: uuidv7(4),
    certificate: uuidv7(5),
  }
  const run = (text: string, values: readonly unknown[] = []) => client.query(text, [...values])

  async function changeAccounts() {
    for (const id of [ids.account, ids.other])
      await run(
        `INSERT INTO accounts (id, thumbprint, jwk, contacts, terms_agreed) VALUES ($1, $1::uuid::text, '{}', '{mailto:a@b.test}', true)`,
        [id],
      )
    await run(`UPDATE accounts SET thumbprint = 'new' WHERE id = $1`, [ids.account])
    await run(
      `INSERT INTO authorizations (id, account_id, identifier_type, identifier_value, wildcard, status, offered, token, expires_at)
       VALUES ($1, $2, 'dns', 'a.test', false, 'valid', '{}', 'x', now() + interval '1 day')`,
      [ids.authorization, ids.account],
    )
    await run(
      `INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at)
       VALUES ($1, $2, '[{"type":"dns","value":"a.test"}]', ARRAY[$3]::uuid[], 'default', now() + interval '1 day')`,
      [ids.order, ids.account, ids.authorization],
    )
    await run(`UPDATE authorizations SET status = 'deactivated' WHERE id = $1`, [ids.authorization])
    await run(`UPDATE accounts SET status = 'deactivated' WHERE id = $1`, [ids.account])
    await run(`UPDATE accounts SET status = 'revoked' WHERE id = $1`, [ids.other])
  }

  async function changeCertificates() {
    await run(
      `INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       VALUES ($1, $2, $3, '\\x0a0b', '\\x01', '{a.test}', now(), '2099-01-01T00:00:00.9Z', 'x')`,
      [ids.certificate, ids.account, ids.order],
    )
    await createExpirationStore(db).warn(7, new Date('2098-12-31T00:00:00Z'), new Date('2099-01-02T00:00:00Z'))
    await recordTimestamp(pool, {
      certificateId: ids.certificate,
      logUrl: 'https://ct.test',
      sct: {
        logId: Buffer.from('id'),
        timestamp: 1_800_000_000_123,
        extensions: Buffer.alloc(0),
        signature: Buffer.alloc(70, 7),
      },
      verified: true,
    })
    await run(`UPDATE certificates SET revoked_at = now(), revocation_reason = 4 WHERE id = $1`, [ids.certificate])
    await run(`UPDATE orders SET status = 'processing' WHERE id = $1`, [ids.order])
    await run(`UPDATE orders SET status = 'invalid', error = $2 WHERE id = $1`, [
      ids.order,
      { type: 'urn:ietf:params:acme:error:serverInternal', detail: 'why', status: 500 },
    ])
    await run(
      `INSERT INTO crls (issuer_key, shards, shard, issuer_id, number, changes, this_update, next_update, entries, bytes, started_at)
       VALUES ('x', 1, 0, 'default', 7, 0, now(), now(), 3, 100, now())`,
    )
  }

  /** Whose subject is a row gets its columns. */
  function written(kind: (typeof WITHOUT_CHANGE)[number]): NewEvent {
    const subject = kind.startsWith('certificate.') ? ids.certificate : ids.order
    const {
      serial_number: _,
      domains: __,
      identifiers: ___,
      ...data
    }: Record<string, unknown> = { ...EVENT_SAMPLES[kind] }
    return { kind, subject, accountId: ids.account, data } as NewEvent
  }

  test('is as described for every kind', async () => {
    await changeAccounts()
    await changeCertificates()
    await run(
      `INSERT INTO admin_audit_log (sequence, id, action, details, created_at, mac)
       VALUES (1, $1, 'user.create', '{"operator":"root"}', now(), 'x')`,
      [uuidv7(6)],
    )
    await writeEvents(db, WITHOUT_CHANGE.map(written))
    const events = await eventsFor(pool, 'all')
    assert.deepEqual(
      EVENT_KINDS.filter((kind) => !events.some((event) => event.kind === kind)),
      [],
      'each kind is caused here: by a change above, or in WITHOUT_CHANGE',
    )
    const dataOf = (wanted: EventKind) => events.find(({ kind }) => kind === wanted)?.data
    const certificate = {
      certificate_id: ids.certificate,
      account_id: ids.account,
      serial_number: '0a0b',
      domains: ['a.test'],
    }
    assert.deepEqual(dataOf('certificate.issuance'), {
      ...certificate,
      order_id: ids.order,
      not_after: '2099-01-01T00:00:00Z',
    })
    assert.deepEqual(dataOf('certificate.revocation'), { ...certificate, reason: 'superseded' })
    assert.deepEqual(dataOf('certificate.expiration'), {
      ...certificate,
      not_after: '2099-01-01T00:00:00Z',
      warning_days: 7,
    })
    assert.deepEqual(dataOf('account.registration'), {
      account_id: ids.account,
      contacts: ['mailto:a@b.test'],
      jwk_thumbprint: ids.account,
      tos_agreed: true,
    })
  })

  test('has a sample of every kind', () => {
    for (const kind of EVENT_KINDS) assert.equal(EVENTS[kind].payload.safeParse(EVENT_SAMPLES[kind]).error, undefined)
  })

  test('that is not as described is delivered as it is, and says why', () => {
    const { data, ...event } = sampleEvent('order.quota_exceeded')
    const { misfit, data: read } = readEvent({ ...event, data: { ...data, limit: 'many' } })
    assert.match(misfit ?? '', /^limit: .*expected (int|number)/)
    assert.deepEqual(read, { ...data, limit: 'many' })
    assert.match(readEvent({ ...event, kind: 'order.lost', data }).misfit ?? '', /does not know the kind/)
  })
})
