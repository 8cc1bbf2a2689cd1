/**
 * What do events cost a certificate in PostgreSQL, and in the thread that takes them?
 *
 * `node compiled/test/load/event-cost.js [CERTIFICATES]` writes orders and certificates in groups of two, as a busy front
 * thread does, with each set of consumers in turn: no triggers, no consumer, notifications for accounts without and with
 * a contact, and a consumer of everything. It prints microseconds of CPU of the connection that writes and of the one
 * that takes, and of this process while it takes. Compare with what `npm run bench` says a certificate costs in all.
 */

import { readFileSync } from 'node:fs'
import pg from 'pg'
import { EVENT_KINDS } from '../../src/domain/event.ts'
import type { DatabaseConsumer } from '../../src/events/consumer.ts'
import { takeBatch } from '../../src/events/delivery.ts'
import { NotificationConsumer } from '../../src/events/notifications/notification-consumer.ts'
import { MailTemplates } from '../../src/events/notifications/templates.ts'
import { STATISTICS } from '../../src/events/statistics.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { registerConsumer } from '../../src/store/event-store.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { testDatabase } from '../support/database.ts'

const CERTIFICATES = Number(process.argv[2] ?? 4_000)
const ROUNDS = 3
/** Of one thread at 250 certificates a second. */
const GROUP = 2
/** As many as come in the pause between two looks. */
const TAKE_AFTER = 240

const notifications = new NotificationConsumer({
  templates: new MailTemplates(null, (file) => console.log(`broken: ${file}`)),
  serverUrl: 'https://acme.example.com',
  settings: () => ({ enabled: true, disabledTypes: [], mostToRecipient: 10 }),
  recorded: () => undefined,
})
const VARIANTS: readonly { name: string; consumer?: DatabaseConsumer; contacts?: string; withoutTriggers?: boolean }[] =
  [
    { name: 'without triggers', withoutTriggers: true },
    { name: 'no consumer' },
    { name: 'notifications, no contact', consumer: notifications },
    { name: 'notifications, one contact', consumer: notifications, contacts: '{mailto:ops@example.com}' },
    { name: 'statistics', consumer: { ...STATISTICS, kinds: EVENT_KINDS } },
  ]

const TRIGGERS = {
  certificates: ['certificates_emit_issued', 'certificates_emit_revoked'],
  orders: ['orders_emit_created', 'orders_emit_failed'],
}

const database = await testDatabase()
const writer = new pg.Client({ ...database.connection })
await writer.connect()
const taker = await openCheckedDatabase(settingsFor(database.connection, 2))
const pid = (await writer.query('SELECT pg_backend_pid() AS pid')).rows[0].pid as number
const sums = new Map<string, { written: number; taken: number; here: number }[]>()
for (let round = 0; round < ROUNDS; round++) for (const variant of VARIANTS) await measure(variant)
for (const [name, rounds] of sums) {
  const median = (of: 'written' | 'taken' | 'here') => rounds.map((r) => r[of]).toSorted((a, b) => a - b)[1] ?? 0
  const shown = (['written', 'taken', 'here'] as const).map((of) => median(of).toFixed(0).padStart(8))
  console.log(`${name.padEnd(28)}${shown.join('')}   µs: writing, taking, process`)
}
await writer.end()
await taker.end()
await database.drop()

async function measure({ name, consumer, contacts = '{}', withoutTriggers }: (typeof VARIANTS)[number]): Promise<void> {
  await writer.query('TRUNCATE accounts, orders, certificates, event_deliveries, notifications CASCADE')
  await writer.query('DELETE FROM event_consumers')
  for (const [table, triggers] of Object.entries(TRIGGERS))
    for (const trigger of triggers)
      await writer.query(`ALTER TABLE ${table} ${withoutTriggers ? 'DISABLE' : 'ENABLE'} TRIGGER ${trigger}`)
  if (consumer) await registerConsumer(taker, consumer.name, consumer.kinds, consumer.holderKinds)
  const account = uuidv7(Date.now())
  await writer.query({
    text: `INSERT INTO accounts (id, thumbprint, jwk, contacts) VALUES ($1, $2, '{}', $3)`,
    values: [account, account, contacts],
  })
  const begun = { pg: cpuOf(pid), taken: 0, here: 0 }
  for (let written = 0; written < CERTIFICATES; written += GROUP) {
    await writeGroup(account)
    if (!consumer || written % TAKE_AFTER !== 0) continue
    const takers = await pidsOfTaker()
    const before = { pg: total(takers), here: process.cpuUsage() }
    await takeBatch(taker, consumer, { misfit: () => undefined })
    const { user, system } = process.cpuUsage(before.here)
    begun.taken += total(takers) - before.pg
    begun.here += user + system
  }
  const written = cpuOf(pid) - begun.pg
  const of = (value: number) => value / CERTIFICATES
  sums.set(name, [...(sums.get(name) ?? []), { written: of(written), taken: of(begun.taken), here: of(begun.here) }])
}

/** Order, its way through the states, and certificate: what the hot path writes to both tables. */
async function writeGroup(account: string): Promise<void> {
  const orders = Array.from({ length: GROUP }, () => uuidv7(Date.now()))
  const certificates = orders.map(() => uuidv7(Date.now()))
  await writer.query('BEGIN')
  await writer.query({
    name: 'orders',
    text: `INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at)
      SELECT id, $2, '[{"type":"dns","value":"www.example.com"}]', ARRAY[id], 'default', now() + interval '1 day' FROM unnest($1::uuid[]) id`,
    values: [orders, account],
  })
  await writer.query('COMMIT')
  await writer.query('BEGIN')
  await writer.query({
    name: 'processing',
    text: `UPDATE orders SET status = 'processing' WHERE id = ANY ($1::uuid[])`,
    values: [orders],
  })
  await writer.query('COMMIT')
  await writer.query('BEGIN')
  await writer.query({
    name: 'valid',
    text: `
      WITH moved AS (
        UPDATE orders o SET status = 'valid', certificate_id = i.id
          FROM unnest($1::uuid[], $2::uuid[]) AS i (order_id, id) WHERE o.id = i.order_id RETURNING i.*)
      INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
      SELECT id, $3, order_id, uuid_send(id), uuid_send(id), '{www.example.com}', now(), now() + interval '90 days', $4 FROM moved`,
    values: [orders, certificates, account, Buffer.alloc(700)],
  })
  await writer.query('COMMIT')
}

async function pidsOfTaker(): Promise<number[]> {
  const { rows } = await writer.query(
    `SELECT pid FROM pg_stat_activity WHERE application_name = 'chancery' AND datname = current_database()`,
  )
  return rows.map((row) => Number(row.pid))
}

function total(pids: readonly number[]): number {
  return pids.reduce((sum, one) => sum + cpuOf(one), 0)
}

/** Microseconds on a processor so far (proc(5), schedstat). */
function cpuOf(process: number): number {
  return Number(readFileSync(`/proc/${process}/schedstat`, 'utf8').split(' ')[0]) / 1000
}
