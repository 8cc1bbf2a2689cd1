/** Notifications: which event becomes which mail, for whom, in which words. */

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pino } from 'pino'
import { z } from 'zod/v4'
import type { EventKind, OccurredEvent } from '../../src/domain/event.ts'
import { EVENT_SAMPLES } from '../../src/domain/event-samples.ts'
import { NOTIFICATION_TYPES } from '../../src/domain/notification.ts'
import { EventDelivery, takeBatch } from '../../src/events/delivery.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { NotificationConsumer } from '../../src/events/notifications/notification-consumer.ts'
import { MailTemplates, sampleOf } from '../../src/events/notifications/templates.ts'
import { Notifications } from '../../src/main/events/consumers.ts'
import { createMetrics } from '../../src/ops/metrics.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type DatabasePool, openCheckedDatabase, rowsOf, sql } from '../../src/store/slonik.ts'
import { insertUser } from '../../src/store/user-store.ts'
import { settingsFor } from '../store/support.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { each } from '../support/each.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { aConfig } from '../unit/config/support.ts'

/** Seen from the compiled file. */
const EXPECTED = path.resolve(import.meta.dirname, '../../../test/fixtures/mails')

const HOUR_MS = 3_600_000
const None = z.object({})
const Row = z.object({
  notification_type: z.string(),
  recipient: z.string(),
  subject: z.string(),
  body_text: z.string(),
  body_html: z.string(),
  status: z.string(),
  account_id: z.string().nullable(),
  message_id: z.string(),
  due_at: z.date().nullable(),
})
/** Every payload here is what the service writes. */
const misfit = (_consumer: string, event: OccurredEvent) => assert.fail(`${event.kind}: ${event.misfit}`)
const silent = { delivered: () => {}, postponed: () => {}, buried: () => {}, failed: () => {}, misfit }
const broken: string[] = []
const templatesIn = (folder: string | null) => new MailTemplates(folder, (file) => broken.push(file))

describe('the words of all mails', () => {
  const templates = templatesIn(null)
  /** The HTML of each, around what is its own. */
  const frame = readFileSync(path.join(EXPECTED, 'frame.html'), 'utf8')
  const inFrame = (subject: string, body: string) =>
    frame.replaceAll('SUBJECT', () => subject).replace('BODY\n', () => body)

  for (const type of NOTIFICATION_TYPES) {
    test(`${type} reads as expected`, () => {
      assert.ok(Object.keys(sampleOf(type)).length > 2, 'an event causes it (src/events/notifications/notices.ts)')
      const { subject, text, html } = templates.render(type, sampleOf(type))
      const body = /<\/h1>\n([\s\S]*)<footer>/.exec(html)?.[1] ?? ''
      assert.equal(html, inFrame(subject, body))
      const mail = `${subject}\n\n${text}\n${body}`
      const file = path.join(EXPECTED, `${type}.txt`)
      if (process.env.CHANCERY_WRITE_EXPECTED) {
        mkdirSync(EXPECTED, { recursive: true })
        writeFileSync(file, mail)
      }
      assert.equal(mail, readFileSync(file, 'utf8'))
      assert.doesNotMatch(mail, /\{\{|\}\}|undefined|: *$/m)
    })
  }

  test('an alarm without further lines ends with its reason', () => {
    const { text, html } = templates.render('alarm', { ...sampleOf('alarm'), lines: [] })
    assert.match(text, /Reason: {2}1 act since .*\n\nA line of level fatal in the log/)
    assert.match(html, /<\/table>\n<p>A line of level fatal/)
  })

  test('what others wrote is escaped in HTML, and does not end a line of the subject', () => {
    const values = {
      ...sampleOf('challenge_failed'),
      identifier: 'a\r\nBcc: x@example.com',
      error_detail: '<script>&"',
    }
    const { subject, text, html } = templates.render('challenge_failed', values)
    assert.equal(subject, 'Challenge failed for a Bcc: x@example.com (http-01)')
    assert.match(text, /<script>&"/)
    assert.match(html, /&lt;script&gt;&amp;&quot;/)
    assert.doesNotMatch(html, /<script/)
  })

  test('a subject with many names has fewer than 200 characters', () => {
    const summary = Array.from({ length: 100 }, (_, n) => `name-${n}.example.com`).join(', ')
    const { subject } = templates.render('delivery_succeeded', { ...sampleOf('delivery_succeeded'), summary })
    assert.ok(subject.length < 200 && subject.endsWith('…'), subject)
  })

  test('templates of the operator come first; a broken one gives way to ours, and says so', () => {
    const folder = temporaryFolder()
    writeFileSync(path.join(folder, 'order_rejected_subject.txt'), "No: {{ rejected_identifiers | join(' + ') }}\n")
    writeFileSync(path.join(folder, 'account_revoked_body.html'), '<h1>Gone &amp; over</h1><p>{{ reason }}</p>')
    writeFileSync(path.join(folder, 'delivery_failed_subject.txt'), '{{ domains | nosuchfilter }}')
    writeFileSync(path.join(folder, 'key_rollover_succeeded_body.txt'), '{% if %}')
    broken.length = 0
    const own = templatesIn(folder)
    assert.deepEqual(broken.toSorted(), ['delivery_failed_subject.txt', 'key_rollover_succeeded_body.txt'])
    assert.equal(own.render('order_rejected', sampleOf('order_rejected')).subject, 'No: shop.example.net')
    const revoked = own.render('account_revoked', { ...sampleOf('account_revoked'), reason: 'a<b' })
    assert.equal(revoked.html, '<h1>Gone &amp; over</h1><p>a&lt;b</p>')
    assert.equal(revoked.text, 'Gone & over\na<b\n')
    const ours = templates.render('delivery_failed', sampleOf('delivery_failed'))
    assert.deepEqual(own.render('delivery_failed', sampleOf('delivery_failed')), ours)
  })

  test('a template runs no code', () => {
    const folder = temporaryFolder()
    writeFileSync(path.join(folder, 'order_rejected_subject.txt'), "{{ ''.constructor.constructor('return 1')() }}")
    broken.length = 0
    templatesIn(folder)
    assert.deepEqual(broken, ['order_rejected_subject.txt'])
  })
})

describe('notifications', () => {
  let database: TestDatabase
  let db: DatabasePool
  let disabledTypes: string[] = []
  let enabled = true
  let mostToRecipient = 1_000
  const consumer = new NotificationConsumer({
    templates: templatesIn(null),
    serverUrl: 'https://acme.example.com',
    settings: () => ({ enabled, disabledTypes, mostToRecipient }),
    recorded: () => undefined,
  })
  before(async () => {
    database = await testDatabase()
    db = await openCheckedDatabase(settingsFor(database.connection))
    await registerConsumer(db, consumer.name, consumer.kinds, consumer.holderKinds)
  })
  after(async () => {
    await db.end()
    await database.drop()
  })

  async function anAccount(...addresses: string[]): Promise<string> {
    const id = uuidv7(Date.now())
    const contacts = sql.array(
      addresses.map((address) => `mailto:${address}`),
      'text',
    )
    await db.query(rowsOf(None)`
      INSERT INTO accounts (id, thumbprint, jwk, contacts) VALUES (${id}, ${id}, '{}', ${contacts})`)
    await taken()
    return id
  }
  /** The sample of a kind with some of its members. */
  const emit = (kind: EventKind, account: string | null, over: object = {}) =>
    db.query(rowsOf(None)`
      SELECT emit_event(${kind}, ${uuidv7(Date.now())}, ${account},
                        ${JSON.stringify({ ...EVENT_SAMPLES[kind], ...over })}::jsonb)`)
  /** What was recorded since the last look. */
  async function taken() {
    while ((await takeBatch(db, consumer, silent)) > 0);
    return db.any(rowsOf(
      Row,
    )`DELETE FROM notifications WHERE true RETURNING notification_type, recipient, subject, body_text,
      body_html, status, account_id, message_id, due_at`)
  }
  /** Recorded, and left where it is. */
  async function recorded() {
    while ((await takeBatch(db, consumer, silent)) > 0);
    return written()
  }
  const written = () =>
    db.any(rowsOf(Row)`SELECT notification_type, recipient, subject, body_text, body_html, status, account_id,
      message_id, due_at FROM notifications ORDER BY id`)

  test('every mailto contact of the account gets a mail of its own; an account without one gets none', async () => {
    const id = uuidv7(Date.now())
    await db.query(rowsOf(None)`
      INSERT INTO accounts (id, thumbprint, jwk, contacts) VALUES (${id}, ${id}, '{}', '{mailto:a@example.com,mailto:b@example.com}')`)
    const rows = await taken()
    assert.deepEqual(rows.map(({ recipient }) => recipient).toSorted(), ['a@example.com', 'b@example.com'])
    for (const row of rows) {
      assert.deepEqual([row.notification_type, row.status, row.account_id], ['registration_succeeded', 'pending', id])
      assert.match(row.message_id, /^<[0-9a-f-]{36}@acme\.example\.com>$/)
      assert.match(row.body_text, new RegExp(id))
    }
    assert.equal(new Set(rows.map(({ message_id }) => message_id)).size, 2)
    const silent = await anAccount()
    await emit('certificate.issuance', silent, { domains: ['a.test'] })
    assert.deepEqual(await taken(), [])
  })

  test('one address gets so many mails an hour, of whatever accounts and types; warnings and administrators’ mails are apart', async () => {
    mostToRecipient = 3
    const [one, other] = [await anAccount('victim@example.com'), await anAccount('Victim@example.com')]
    await emit('certificate.issuance', one, { domains: ['a.test'] })
    await emit('account.key_change', other, {})
    await emit('certificate.revocation', other, { domains: ['a.test'] })
    await emit('account.key_change', one, {})
    await emit('certificate.expiration', one, {
      domains: ['a.test'],
      not_after: '2026-01-01T00:00:00Z',
      warning_days: 7,
    })
    const types = (await recorded()).map(({ notification_type }) => notification_type)
    mostToRecipient = 1_000
    assert.deepEqual(types.toSorted(), [
      'delivery_succeeded',
      'expiration_warning',
      'key_rollover_succeeded',
      'revocation_succeeded',
    ])
    await taken()
  })

  test('what happens to an account reaches its holder in the words of its type', async () => {
    const account = await anAccount('ops@example.com')
    const domains = ['a.test', 'b.test', 'c.test', 'd.test', 'e.test']
    const error = { type: 'urn:ietf:params:acme:error:badCSR', detail: 'the CSR is\nwrong' }
    const some = 'a.test, b.test, c.test and 2 more'
    const identifiers = [{ type: 'dns', value: 'a.test' }]
    const rejected = { rejected_identifiers: [{ type: 'dns', value: 'x.test' }], error: { detail: 'no' } }
    const revoked = { domains, serial_number: '0a', reason: 'superseded' }
    const failed = { identifier_value: 'a.test', challenge_type: 'http-01', error: 'refused' }
    const ending = {
      domains: ['a.test'],
      warning_days: 1,
      not_after: new Date(Date.now() + 23 * HOUR_MS).toISOString(),
    }
    const cases: [EventKind, object, string, string][] = [
      ['certificate.issuance', { domains }, 'delivery_succeeded', `Certificate issued for ${some}`],
      [
        'certificate.issuance_failed',
        { identifiers, error },
        'delivery_failed',
        'Certificate could not be issued for a.test',
      ],
      ['order.csr_refused', { identifiers, error }, 'csr_validation_failed', 'CSR refused for a.test'],
      ['certificate.revocation', revoked, 'revocation_succeeded', `Certificate revoked for ${some}`],
      ['order.rejected', rejected, 'order_rejected', 'Order rejected for x.test'],
      [
        'order.quota_exceeded',
        { quota: 'certificates', limit: 5 },
        'order_quota_exceeded',
        'Quota used up: 5 certificates a day',
      ],
      ['order.recovered', { identifiers }, 'order_stale_recovered', 'Interrupted order completed for a.test'],
      ['challenge.on_failure', failed, 'challenge_failed', 'Challenge failed for a.test (http-01)'],
      ['account.deactivation', { account_id: account }, 'account_deactivated', 'ACME account deactivated'],
      ['account.revocation', { account_id: account }, 'account_revoked', 'ACME account revoked'],
      ['account.key_change', { account_id: account }, 'key_rollover_succeeded', 'ACME account key changed'],
      [
        'authorization.deactivation',
        { identifier_value: 'a.test' },
        'authorization_deactivated',
        'Authorization deactivated for a.test',
      ],
      ['certificate.expiration', ending, 'expiration_warning', 'Certificate expires in 1 day: a.test'],
    ]
    for (const [kind, data, type, subject] of cases) {
      await emit(kind, account, data)
      const rows = await taken()
      assert.deepEqual(
        rows.map((row) => [row.notification_type, row.recipient, row.subject]),
        [[type, 'ops@example.com', subject]],
      )
    }
  })

  test('a mail says what the client was told, not what the operator sees, and leaves out what is not known', async () => {
    const account = await anAccount('ops@example.com')
    const of = { problem: 'incorrectResponse', error: 'the answer was wrong', token: 'secret-token' }
    await emit('challenge.on_failure', account, of)
    await emit('order.quota_exceeded', account, { quota: 'orders', limit: 5 })
    await emit('order.rejected', account, { rejected_identifiers: [], error: { detail: 'no' } })
    const text = (type: string) => rows.find((row) => row.notification_type === type)?.body_text ?? ''
    const rows = await taken()
    assert.match(text('challenge_failed'), /Reason: +the answer was wrong/)
    assert.doesNotMatch(JSON.stringify(rows), /secret-token/)
    assert.match(text('order_quota_exceeded'), /Quota: +5 orders a day/)
    for (const { body_text } of rows) assert.doesNotMatch(body_text, /: *$/m)
  })

  test('a subject says how many names there are, however long the first ones are', async () => {
    const account = await anAccount('ops@example.com')
    const long = (n: number) => `${'a-long-label-'.repeat(4)}${n}.example.com`
    const subjects: string[] = []
    for (const count of [1, 2, 5]) {
      await emit('certificate.issuance', account, { domains: Array.from({ length: count }, (_, n) => long(n)) })
      subjects.push(...(await taken()).map(({ subject }) => subject))
    }
    const expected = [long(0), `${long(0)} and 1 more`, `${long(0)} and 4 more`]
    assert.deepEqual(
      subjects,
      expected.map((names) => `Certificate issued for ${names}`),
    )
  })

  test('a warning says how long the certificate is still valid, not which threshold it has passed', async () => {
    const account = await anAccount('ops@example.com')
    const subjects: string[] = []
    for (const hours of [20.4 * 24, 6 * 24 - 1, 30, 24.005, 5]) {
      const not_after = new Date(Date.now() + hours * HOUR_MS).toISOString()
      await emit('certificate.expiration', account, { domains: ['a.test'], warning_days: 30, not_after })
      subjects.push(...(await taken()).map(({ subject }) => subject))
    }
    assert.deepEqual(
      subjects,
      ['20 days', '6 days', '2 days', '2 days', 'less than a day'].map(
        (left) => `Certificate expires in ${left}: a.test`,
      ),
    )
  })

  test('administrators are written to about themselves, without a password, and about the backend', async () => {
    const user = { id: uuidv7(Date.now()), username: 'alice', email: 'alice@example.com', passwordHash: 'x' }
    await insertUser(db, { ...user, role: 'admin' })
    await insertUser(db, {
      ...user,
      id: uuidv7(Date.now()),
      username: 'audrey',
      email: 'audrey@example.com',
      role: 'auditor',
    })
    const details = { username: 'alice', role: 'admin', operator: 'root', password: 'hunter2' }
    await emit('admin.action', null, { action: 'user.create', target_user_id: user.id, user_id: null, details })
    await emit('admin.action', null, {
      action: 'user.reset_password',
      target_user_id: user.id,
      user_id: user.id,
      details,
    })
    await emit('admin.action', null, { action: 'user.reset_second_factor', target_user_id: user.id, details })
    await emit('admin.action', null, { action: 'user.update', target_user_id: user.id, details })
    const email = { before: 'former@example.com', after: 'alice@example.com' }
    await emit('admin.action', null, { action: 'user.update', target_user_id: user.id, details: { email } })
    await emit('certificate.revocation_failed', null, { serial_number: '0a', error: { detail: 'it answered 503' } })
    const rows = await taken()
    assert.deepEqual(rows.map((row) => [row.notification_type, row.recipient, row.account_id]).toSorted(), [
      ['admin_password_reset', 'alice@example.com', null],
      ['admin_second_factor_reset', 'alice@example.com', null],
      ['admin_user_changed', 'alice@example.com', null],
      ['admin_user_changed', 'former@example.com', null],
      ['admin_user_created', 'alice@example.com', null],
      ['revocation_failed', 'alice@example.com', null],
    ])
    assert.doesNotMatch(JSON.stringify(rows), /hunter2/)
    assert.match(
      rows.find((row) => row.notification_type === 'admin_user_created')?.body_text ?? '',
      /Created by: +root/,
    )
  })

  test('an account is told of its quota once a day, and of failures five times an hour', async () => {
    const account = await anAccount('ops@example.com')
    for (let n = 0; n < 3; n++) await emit('order.quota_exceeded', account, { limit: 5 })
    for (let n = 0; n < 9; n++) await emit('challenge.on_failure', account, { identifier_value: `n${n}.test` })
    const count = (rows: readonly z.infer<typeof Row>[]) =>
      ['order_quota_exceeded', 'challenge_failed'].map(
        (type) => rows.filter((row) => row.notification_type === type).length,
      )
    assert.deepEqual(count(await recorded()), [1, 5])
    await emit('order.quota_exceeded', account, { limit: 5 })
    await emit('challenge.on_failure', account, { identifier_value: 'again.test' })
    assert.deepEqual(count(await taken()), [1, 5])
  })

  test('nobody is told of a certificate that was imported', async () => {
    const account = await anAccount('ops@example.com')
    await emit('certificate.issuance', account, { order_id: null, domains: ['a.test'] })
    assert.deepEqual(await taken(), [])
  })

  test('a refused registration is recorded, and never mailed', async () => {
    await emit('account.registration_failed', null, {
      contacts: ['mailto:victim@example.com'],
      error: { detail: 'no' },
    })
    const [row] = await taken()
    assert.deepEqual([row?.recipient, row?.status, row?.due_at], ['victim@example.com', 'failed', null])
  })

  test('disabled types are not recorded; with notifications off, nothing is', async () => {
    const account = await anAccount('ops@example.com')
    disabledTypes = ['delivery_succeeded']
    await emit('certificate.issuance', account, { domains: ['a.test'] })
    await emit('account.deactivation', account, {})
    assert.deepEqual(
      (await taken()).map((row) => row.notification_type),
      ['account_deactivated'],
    )
    disabledTypes = []
    enabled = false
    await emit('account.deactivation', account, {})
    assert.deepEqual(await taken(), [])
    enabled = true
    assert.deepEqual(await taken(), [])
  })

  test('without a mail server they are recorded and wait', async () => {
    const account = await anAccount('ops@example.com')
    const [log, metrics] = [pino({ level: 'silent' }), createMetrics()]
    const config = aConfig({ smtp: { enabled: false } })
    const events = { ...silent, abandoned: () => undefined }
    const delivery = new EventDelivery({ db, instanceId: 1, database: [], external: [], events })
    const recording = new Notifications({ config, db, log, metrics }, 1)
    await recording.start(delivery)
    await emit('account.deactivation', account, {})
    const waiting = await until('one is recorded', async () => {
      const rows = await written()
      return rows.length > 0 && rows
    })
    assert.deepEqual(each(waiting, 'notification_type', 'status', 'recipient'), [
      ['account_deactivated', 'pending', 'ops@example.com'],
    ])
    assert.ok(waiting[0]?.due_at)
    await delivery.stop(1_000)
    await recording.stop(1_000)
  })
})
